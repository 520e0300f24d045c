package measure

import (
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Choose returns the elements of all whose keys are in words, a list separated by commas. If words
// is empty it returns all. A prefix such as "clocks" stands for clocks-10ms, clocks-1s and so on.
func Choose[T any](what, words string, all []T, key func(T) string) ([]T, error) {
	if words == "" {
		return all, nil
	}
	var keys []string
	for _, v := range all {
		keys = append(keys, key(v))
	}
	chosen := make([]bool, len(all))
	for word := range strings.SplitSeq(words, ",") {
		known := false
		for i, k := range keys {
			if k == word || strings.HasPrefix(k, word+"-") {
				chosen[i], known = true, true
			}
		}
		if !known {
			return nil, Errorf(Usage, "unknown %s %q: there are %s", what, word, strings.Join(keys, ", "))
		}
	}
	var list []T
	for i, v := range all {
		if chosen[i] {
			list = append(list, v)
		}
	}
	return list, nil
}

// ParseFlags parses a command line that has only flags. If the seed is not among them, it sets a
// random one. It returns the flags that repeat the run: those that were given, except for names of
// files and the URL, which may have a password. The help is printed only for those who ask for it.
func ParseFlags(program string, fs *flag.FlagSet, args []string) (again string, err error) {
	usage, out := fs.Usage, fs.Output()
	fs.Usage = func() {} // Parse would print all of it beside each error
	fs.SetOutput(io.Discard)
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		fs.SetOutput(out)
		usage()
		return "", err
	} else if err != nil {
		return "", Errorf(Usage, "%w; see --help", err)
	}
	if fs.NArg() > 0 {
		return "", Errorf(Usage, "unexpected argument %q; see --help", fs.Arg(0))
	}
	seed := strconv.Itoa(rand.IntN(1_000_000)) //nolint:gosec // short enough to type
	fs.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "out", "html", "json":
		case "seed":
			seed = f.Value.String()
		case "redis":
			program += " --redis URL"
		default:
			program += " --" + f.Name + "=" + f.Value.String()
		}
	})
	return program + " --seed=" + seed, fs.Set("seed", seed)
}
