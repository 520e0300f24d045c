// Package value parses the numbers and durations of a command line, with errors in a user's
// words.
package value

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthwatch"
	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/words"
)

var errInt = errors.New("not a whole number, or too large")

func parseInt(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, errInt
	}
	return n, nil
}

// Duration returns a flag for *p, which becomes the default.
func Duration(p *time.Duration, def time.Duration) pflag.Value {
	*p = def
	return flag[time.Duration]{p, "duration", words.ParseDuration}
}

// Int returns a flag for *p, which becomes the default.
func Int(p *int, def int) pflag.Value {
	*p = def
	return flag[int]{p, "int", parseInt}
}

// Limit returns a flag for *p: a number, or none, which is berth.NoLimit.
func Limit(p *int) pflag.Value { return flag[int]{p, "int", ParseLimit} }

// ParseLimit reads a limit.
func ParseLimit(s string) (int, error) {
	if s == "none" {
		return berth.NoLimit, nil
	}
	return parseInt(s)
}

// Rates are the values of a flag that can be repeated, as berthwatch.ParseRate reads them.
type Rates []berthadmin.Rate

// Set implements pflag.Value.
func (r *Rates) Set(s string) error {
	one, err := berthwatch.ParseRate(s)
	if err != nil {
		return reason(err)
	}
	*r = append(*r, one)
	return nil
}

// Type implements pflag.Value.
func (*Rates) Type() string { return "rate" }

// String implements pflag.Value.
func (r *Rates) String() string { return berthwatch.RateFlags(*r) }

// reason is the error of an invalid value, without what is in front of every such error: the name of
// the flag will be.
func reason(err error) error {
	if wrong, ok := errors.AsType[*berth.InvalidError](err); ok {
		return errors.New(wrong.Reason)
	}
	return err
}

// Costs are the values of a flag that can be repeated: [UNIT=]N.
type Costs []protocol.Cost

// Set implements pflag.Value.
func (c *Costs) Set(s string) error {
	unit, number, named := strings.Cut(s, "=")
	if !named {
		unit, number = "", s
	}
	n, err := parseInt(number)
	if err != nil {
		return err
	}
	all, err := append(*c, protocol.Cost{Unit: unit, N: n}), errUnit
	if named == (unit != "") {
		_, err = protocol.JoinCosts(all...)
	}
	if err == nil {
		*c = all
	}
	return err
}

// Options returns the costs as the library takes them.
func (c *Costs) Options() (all []berth.CostOption) {
	for _, one := range *c {
		all = append(all, berth.Cost(one.N).Of(one.Unit))
	}
	return all
}

var errUnit = errors.New("the unit is missing: tokens=1200")

// Type implements pflag.Value.
func (*Costs) Type() string { return "cost" }

// String implements pflag.Value.
func (c *Costs) String() string {
	var all []string
	for _, one := range *c {
		text := strconv.Itoa(one.N)
		if one.Unit != "" {
			text = one.Unit + "=" + text
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// Tenant is the key of a tenant. An empty one, as of a variable that is not set, is not taken for none.
type Tenant string

// Set implements pflag.Value.
func (t *Tenant) Set(s string) error {
	if s == "" {
		return errors.New("not a tenant, like acme")
	}
	*t = Tenant(s)
	return nil
}

// Type implements pflag.Value.
func (*Tenant) Type() string { return "tenant" }

// String implements pflag.Value.
func (t *Tenant) String() string { return string(*t) }

// flag implements pflag.Value.
type flag[T int | time.Duration] struct {
	p     *T
	kind  string
	parse func(string) (T, error)
}

// Set implements pflag.Value.
func (f flag[T]) Set(s string) error {
	v, err := f.parse(s)
	if err == nil {
		*f.p = v
	}
	return err
}

// Type implements pflag.Value.
func (f flag[T]) Type() string { return f.kind }

// String implements pflag.Value. A default of "0" is not shown.
func (f flag[T]) String() string {
	if *f.p == 0 {
		return "0"
	}
	return fmt.Sprint(*f.p)
}
