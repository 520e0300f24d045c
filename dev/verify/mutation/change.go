package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// change replaces a part of a file.
type change struct {
	file     string
	line     int
	column   int
	from, to int    // offsets
	where    string // the line in which it begins
	old, new string
	switched place // in Go: around it, so that one build has many changes
}

// String implements fmt.Stringer.
func (c *change) String() string {
	return fmt.Sprintf("%s:%d:%d: %q → %q in %s", c.file, c.line, c.column, c.old, c.new, c.where)
}

// place is the part of a Go file that is chosen, changed or not, while the program runs.
type place struct {
	from, to int
	kind     kind
	at       token.Position
}

// kind tells how the choice between the two texts of a place is written.
type kind int

const (
	none       kind = iota
	condition       // changed, or as it is, with && and ||
	statement       // an if statement with both
	definition      // as it is, and then assigned what is changed
)

// opposite maps operators of Go to those that they are easily confused with.
var opposite = map[token.Token]string{
	token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">", token.EQL: "!=", token.NEQ: "==",
	token.LAND: "||", token.LOR: "&&", token.ADD: "-", token.SUB: "+",
}

// goFile finds the changes of one file of Go.
type goFile struct {
	name   string
	source string
	fset   *token.FileSet
	above  []ast.Node // the node that is visited, and those around it
	all    []*change
}

// ofGo swaps operators, negates conditions, changes numbers by one, and removes calls
// and assignments. Constants stay: they are not chosen while a program runs.
func ofGo(name, source string) ([]*change, error) {
	f := &goFile{name: name, source: source, fset: token.NewFileSet()}
	parsed, err := parser.ParseFile(f.fset, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if n == nil {
			f.above = f.above[:len(f.above)-1]
			return true
		}
		f.above = append(f.above, n)
		f.visit(n)
		return true
	})
	return f.all, nil
}

func (f *goFile) visit(n ast.Node) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if s, ok := opposite[n.Op]; ok {
			f.add(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), s)
		}
	case *ast.IfStmt:
		f.above = append(f.above, n.Cond)
		f.add(n.Cond.Pos(), n.Cond.End(), "!("+f.text(n.Cond.Pos(), n.Cond.End())+")")
		f.above = f.above[:len(f.above)-1]
	case *ast.ExprStmt:
		if !strings.HasPrefix(f.text(n.Pos(), n.End()), "panic(") { // may end a function
			f.add(n.Pos(), n.End(), "{}")
		}
	case *ast.IncDecStmt:
		f.add(n.Pos(), n.End(), "{}")
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			f.add(n.Pos(), n.End(), "{}")
		}
	case *ast.BasicLit:
		if v, err := strconv.Atoi(n.Value); err == nil && n.Kind == token.INT {
			f.add(n.Pos(), n.End(), strconv.Itoa(v+1))
		}
	}
}

// add adds a change if there is a place around it that can be switched.
func (f *goFile) add(from, to token.Pos, replacement string) {
	p := f.place()
	if p.kind == none {
		return
	}
	at := f.fset.Position(from)
	where := strings.TrimSpace(strings.Split(f.source, "\n")[at.Line-1])
	f.all = append(f.all, &change{f.name, at.Line, at.Column, at.Offset, f.fset.Position(to).Offset, where, f.text(from, to), replacement, p})
}

func (f *goFile) text(from, to token.Pos) string {
	return f.source[f.fset.Position(from).Offset:f.fset.Position(to).Offset]
}

// place is the smallest condition or statement around the node that is visited.
func (f *goFile) place() place {
	for i := len(f.above) - 1; i > 0; i-- {
		n, parent := f.above[i], f.above[i-1]
		k := none
		switch n := n.(type) {
		case ast.Expr:
			if isCondition(n, parent) {
				k = condition
			}
		case ast.Stmt:
			if isListed(n, parent) {
				k = statement
			}
			if a, ok := n.(*ast.AssignStmt); ok && k == statement && a.Tok == token.DEFINE {
				k = definition
			}
		case *ast.GenDecl:
			return place{}
		}
		if _, declared := n.(*ast.DeclStmt); declared {
			return place{}
		}
		if k != none {
			from, to := f.fset.Position(n.Pos()), f.fset.Position(n.End())
			return place{from.Offset, to.Offset, k, to}
		}
	}
	return place{}
}

// isCondition reports whether an expression is true or false.
func isCondition(n ast.Expr, parent ast.Node) bool {
	if b, ok := n.(*ast.BinaryExpr); ok {
		switch b.Op {
		case token.LSS, token.LEQ, token.GTR, token.GEQ, token.EQL, token.NEQ, token.LAND, token.LOR:
			return true
		}
	}
	switch p := parent.(type) {
	case *ast.IfStmt:
		return n == p.Cond
	case *ast.ForStmt:
		return n == p.Cond
	}
	return false
}

// isListed reports whether a statement is one of a block.
func isListed(n ast.Stmt, parent ast.Node) bool {
	switch p := parent.(type) {
	case *ast.BlockStmt, *ast.CaseClause:
		return true
	case *ast.CommClause:
		return n != p.Comm
	}
	return false
}

// luaRules are the changes of a line of Lua.
var luaRules = []struct {
	find *regexp.Regexp
	new  string
}{
	{regexp.MustCompile(` < `), " <= "},
	{regexp.MustCompile(` <= `), " < "},
	{regexp.MustCompile(` > `), " >= "},
	{regexp.MustCompile(` >= `), " > "},
	{regexp.MustCompile(` == `), " ~= "},
	{regexp.MustCompile(` ~= `), " == "},
	{regexp.MustCompile(` and `), " or "},
	{regexp.MustCompile(` or `), " and "},
	{regexp.MustCompile(`\bnot `), ""},
	{regexp.MustCompile(` \+ `), " - "},
	{regexp.MustCompile(` - `), " + "},
	{regexp.MustCompile(`\b1000\b`), "1001"},
	{regexp.MustCompile(`'0'`), "'1'"},
	{regexp.MustCompile(`\btrue\b`), "false"},
	{regexp.MustCompile(`\bfalse\b`), "true"},
	{regexp.MustCompile(`\bcall\('(DEL|HDEL|HSET|PERSIST|PEXPIREAT|ZADD|ZREM|PUBLISH)', (?:[^()]|\([^()]*\))*\)`), "local _"},
}

// begins matches what is before a statement of Lua.
var begins = regexp.MustCompile(`(^|then|else|do)\s*$`)

// ofLua does the same to a script, line by line, outside its comments.
func ofLua(name, source string) ([]*change, error) {
	var all []*change
	offset := 0
	for i, line := range strings.SplitAfter(source, "\n") {
		code, _, _ := strings.Cut(line, "--")
		for _, rule := range luaRules {
			for _, at := range rule.find.FindAllStringIndex(code, -1) {
				if rule.new == "local _" && !begins.MatchString(code[:at[0]]) {
					continue
				}
				all = append(all, &change{
					file: name, line: i + 1, column: at[0] + 1, from: offset + at[0], to: offset + at[1],
					where: strings.TrimSpace(code), old: code[at[0]:at[1]], new: rule.new,
				})
			}
		}
		offset += len(line)
	}
	return all, nil
}
