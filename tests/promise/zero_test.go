package promise_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthhttp"
	"github.com/berth-go/berth/berthpool"
	"github.com/berth-go/berth/berthtest"
	"github.com/berth-go/berth/berthwatch"
	"github.com/berth-go/berth/classic"
)

// What a function makes, which returns nil with an error that a program may have ignored.
var made = []any{
	&berth.Client{}, &berth.Semaphore{}, &berth.Lease{}, &berthadmin.Inspector{}, &berthpool.Pool{}, &berthpool.Loan{},
	&berthhttp.Transport{}, &berthhttp.Handler{}, &berthtest.Store{}, &classic.Basic{}, &classic.Fair{}, &classic.FairUnderLock{}, &classic.Lock{},
}

// What is made by its literal, or always.
var literal = []any{
	new(berth.Leases), new(berth.Handle), new(berth.LostReason), &berth.BusyError{}, &berth.TooHeavyError{}, &berth.LostError{}, &berth.WaitError{},
	&berth.CorruptError{}, &berth.NotReplicatedError{}, &berth.InvalidError{},
	&berthadmin.Summary{}, &berthadmin.State{}, &berthadmin.Holder{}, &berthadmin.Waiter{}, &berthhttp.RefusedError{},
	&berthwatch.Sampler{}, &berthwatch.Action{}, &berthwatch.Flow{}, new(berthwatch.Groups), &berthwatch.Point{}, new(berthwatch.Reasons), &berthwatch.Row{},
	&berthwatch.View{}, &berthwatch.Shares{}, &berthwatch.RoundTrips{},
	&berth.AcquireInfo{}, new(berth.Observation), &berth.RateOption{}, &berth.CostOption{}, &berthadmin.Rate{}, &berthhttp.RateOption{},
	&berthhttp.CostOption{},
}

// TestZeroValuesDoNothing: no method of a type that was not made as its documentation says panics,
// and those that return an error say so by it.
func TestZeroValuesDoNothing(t *testing.T) {
	for _, zero := range made {
		v := reflect.ValueOf(zero)
		callAll(t, v, true)
		callAll(t, reflect.Zero(v.Type()), true)
	}
	for _, zero := range literal {
		callAll(t, reflect.ValueOf(zero), false)
	}
}

// TestZeroValuesAreRefused by what is made of them, or when that is used first.
func TestZeroValuesAreRefused(t *testing.T) {
	second := func(_ any, err error) error { return err }
	client, sem := &berth.Client{}, &berth.Semaphore{}
	transport, made := berthhttp.NewTransport(client, "a", 1)
	if made == nil {
		_, made = transport.RoundTrip(httptest.NewRequest(http.MethodGet, "/", nil)) //nolint:bodyclose // there is none
	}
	for what, err := range map[string]error{
		"AcquireAll":     second(berth.AcquireAll(t.Context(), sem)),
		"berthpool":      second(berthpool.New(sem, 1)),
		"berthadmin":     berthadmin.Of(client).Ping(t.Context()),
		"berthadmin nil": berthadmin.Of(nil).Ping(t.Context()),
		"berthhttp":      made,
	} {
		if !errors.Is(err, berth.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func callAll(t *testing.T, v reflect.Value, refuses bool) {
	t.Helper()
	for i := range v.NumMethod() {
		name := v.Type().String() + "." + v.Type().Method(i).Name
		if v.IsNil() {
			name = "nil " + name
		}
		err, returned := call(t, name, v.Method(i))
		closes := strings.HasSuffix(name, ".Close") && err == nil
		if refuses && returned && !closes && !isTyped(err) {
			t.Errorf("%s returned %v", name, err)
		}
	}
}

func isTyped(err error) bool {
	return errors.Is(err, berth.ErrInvalid) || errors.Is(err, berth.ErrReleased) || errors.Is(err, classic.ErrInvalid)
}

// call calls a method with arguments that it can do nothing with, and returns the error, if it
// returns any. What it was not made for must not be called back.
func call(t *testing.T, name string, method reflect.Value) (err error, returned bool) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("%s panicked: %v", name, p)
		}
	}()
	results := method.Call(arguments(t, name, method.Type()))
	for _, result := range results {
		switch {
		case result.Type() == reflect.TypeFor[error]():
			err, _ = reflect.TypeAssert[error](result)
			returned = true
		case result.Type().CanSeq2():
			for _, last := range result.Seq2() {
				err, _ = reflect.TypeAssert[error](last)
				returned = true
			}
		case result.Kind() == reflect.Func && !result.IsNil() && result.Type().NumIn() == 0:
			result.Call(nil) // a CancelFunc
		}
	}
	return err, returned
}

func arguments(t *testing.T, name string, method reflect.Type) (args []reflect.Value) {
	fixed := method.NumIn()
	if method.IsVariadic() {
		fixed--
	}
	for i := range fixed {
		in := method.In(i)
		arg := reflect.Zero(in)
		for _, known := range []any{t.Context(), httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)} {
			if reflect.TypeOf(known).AssignableTo(in) && in.Kind() != reflect.String {
				arg = reflect.ValueOf(known)
			}
		}
		if in == reflect.TypeFor[*berth.Lease]() {
			arg = reflect.ValueOf(&berth.Lease{})
		}
		if in == reflect.TypeFor[*berthadmin.Summary]() {
			arg = reflect.ValueOf(&berthadmin.Summary{})
		}
		if in.Kind() == reflect.Func {
			arg = reflect.MakeFunc(in, func([]reflect.Value) []reflect.Value {
				t.Errorf("%s called back", name)
				return slices.Collect(zeros(in))
			})
		}
		args = append(args, arg)
	}
	return args
}

func zeros(f reflect.Type) func(func(reflect.Value) bool) {
	return func(yield func(reflect.Value) bool) {
		for out := range f.Outs() {
			if !yield(reflect.Zero(out)) {
				return
			}
		}
	}
}

// TestZeroValuesAreAll: each exported type with methods is in one of the two lists.
func TestZeroValuesAreAll(t *testing.T) {
	listed := map[string]bool{}
	for _, zero := range slices.Concat(made, literal) {
		listed[strings.TrimPrefix(reflect.TypeOf(zero).String(), "*")] = true
	}
	for _, dir := range []string{"", "berthadmin", "berthhttp", "berthpool", "berthtest", "berthwatch", "berthweb", "classic"} {
		files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%q: %v, %d files", dir, err, len(files))
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, typ := range withMethods(file) {
				if name := file.Name.Name + "." + typ; !listed[name] {
					t.Errorf("%s is not tried", name)
				}
			}
		}
	}
}

// withMethods are the exported types of which a file has exported methods.
func withMethods(file *ast.File) (types []string) {
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Recv == nil || !f.Name.IsExported() {
			continue
		}
		typ := f.Recv.List[0].Type
		if star, ok := typ.(*ast.StarExpr); ok {
			typ = star.X
		}
		if id, ok := typ.(*ast.Ident); ok && id.IsExported() {
			types = append(types, id.Name)
		}
	}
	return types
}
