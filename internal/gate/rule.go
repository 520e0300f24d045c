package gate

import (
	"fmt"
	"time"

	"github.com/berth-go/berth"
)

// Rule is one of the limits of a Gate.
type Rule[R any] struct {
	Name    string
	Limit   int
	Key     func(R) string // nil: one semaphore for all
	Limits  func(key string) int
	Lease   []berth.Option
	PerCall []func(R) []berth.AcquireOption
	Tenant  func(R) string // nil: calls have no tenant
	Settles []Settling
}

// CostBy returns a function for PerCall that says what a call costs in a unit; nil if f is.
func CostBy[R any](f func(R) int, unit string) func(R) []berth.AcquireOption {
	if f == nil {
		return nil
	}
	return func(call R) []berth.AcquireOption { return []berth.AcquireOption{berth.Cost(f(call)).Of(unit)} }
}

// ready checks the rule at a place among others, and adds the options that come before its own.
func (r *Rule[R]) ready(client *berth.Client, place int, maxHold time.Duration) error {
	if len(r.Name) > mostName {
		return &berth.InvalidError{What: "name", Reason: fmt.Sprintf("%d bytes are more than %d", len(r.Name), mostName)}
	}
	if r.Limits != nil && r.Key == nil {
		return &berth.InvalidError{What: "Limits", Reason: "there is no Key whose limits it could give: add Key, or leave Limits out"}
	}
	for _, f := range r.PerCall {
		if f == nil {
			return &berth.InvalidError{What: "Cost", Reason: "its function is nil: leave it out, or say what a call costs"}
		}
	}
	for _, s := range r.Settles {
		if s.cost == nil {
			return &berth.InvalidError{What: "SettleBy", Reason: "its function is nil: leave it out, or say what an answer says that the call has cost"}
		}
	}
	r.Lease = append([]berth.Option{berth.Level(place), berth.MaxHold(maxHold)}, r.Lease...)
	_, err := client.Semaphore(r.Name, r.Limit, r.Lease...)
	return err
}

// tenant returns the key of the tenant for whom a call is made; "": nobody.
func (r *Rule[R]) tenant(call R) string {
	if r.Tenant == nil {
		return ""
	}
	if key := r.Tenant(call); key != "" {
		return tenantOf(key)
	}
	return ""
}

// ask returns what a call for a tenant asks of the limit.
func (r *Rule[R]) ask(client *berth.Client, call R, tenant string) (Ask, error) {
	a := Ask{Name: r.Name, limit: r.Limit, tenant: tenant}
	if r.Key != nil {
		key := r.Key(call)
		a.Name = nameOf(r.Name, key)
		if r.Limits != nil {
			if a.limit = r.Limits(key); a.limit < 1 { // to a semaphore, 0 would declare none
				return a, &berth.InvalidError{What: "limit", Reason: fmt.Sprintf("it is %d for %q, and less than 1", a.limit, a.Name)}
			}
		}
	}
	sem, err := client.Semaphore(a.Name, a.limit, r.Lease...)
	if err != nil {
		return a, err
	}
	a.Sem = sem
	if tenant != "" {
		a.opts = append(a.opts, berth.Tenant(tenant))
	}
	for _, f := range r.PerCall {
		a.opts = append(a.opts, f(call)...)
	}
	return a, nil
}

// Ask is what a call asks of one limit.
type Ask struct {
	Name   string
	Sem    *berth.Semaphore // nil: there is none, because of an error
	limit  int              // declared
	tenant string           // for whom; "": nobody
	opts   []berth.AcquireOption
}
