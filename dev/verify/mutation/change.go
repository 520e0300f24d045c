package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// change replaces a part of a file.
type change struct {
	file     string
	line     int
	from, to int    // offsets
	where    string // the line in which it begins
	old, new string
}

// String implements fmt.Stringer.
func (c change) String() string {
	return fmt.Sprintf("%s:%d: %q → %q in %s", c.file, c.line, c.old, c.new, c.where)
}

// changes returns every change that the command can make to a file.
func changes(file string, source []byte) []change {
	if filepath.Ext(file) == ".lua" {
		return ofLua(file, string(source))
	}
	return ofGo(file, source)
}

// opposite maps operators of Go to those that they are easily confused with.
var opposite = map[token.Token]string{
	token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">", token.EQL: "!=", token.NEQ: "==",
	token.LAND: "||", token.LOR: "&&", token.ADD: "-", token.SUB: "+",
}

// ofGo swaps operators, negates conditions, changes numbers by one, and removes calls
// and assignments.
func ofGo(file string, source []byte) []change {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil
	}
	lines := strings.Split(string(source), "\n")
	var all []change
	add := func(from, to token.Pos, replacement string) {
		f, t := fset.Position(from), fset.Position(to)
		where, old := strings.TrimSpace(lines[f.Line-1]), string(source[f.Offset:t.Offset])
		all = append(all, change{file, f.Line, f.Offset, t.Offset, where, old, replacement})
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if s, ok := opposite[n.Op]; ok {
				add(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), s)
			}
		case *ast.IfStmt:
			add(n.Cond.Pos(), n.Cond.End(), "!("+string(source[fset.Position(n.Cond.Pos()).Offset:fset.Position(n.Cond.End()).Offset])+")")
		case *ast.ExprStmt, *ast.IncDecStmt:
			add(n.Pos(), n.End(), "{}")
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				add(n.Pos(), n.End(), "{}")
			}
		case *ast.BasicLit:
			if v, err := strconv.Atoi(n.Value); err == nil && n.Kind == token.INT {
				add(n.Pos(), n.End(), strconv.Itoa(v+1))
			}
		case *ast.GenDecl:
			return n.Tok != token.IMPORT
		}
		return true
	})
	return all
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

// ofLua does the same to a script, line by line, outside its comments.
func ofLua(file, source string) []change {
	var all []change
	offset := 0
	for i, line := range strings.SplitAfter(source, "\n") {
		code, _, _ := strings.Cut(line, "--")
		for _, rule := range luaRules {
			for _, at := range rule.find.FindAllStringIndex(code, -1) {
				all = append(all, change{file, i + 1, offset + at[0], offset + at[1], strings.TrimSpace(code), code[at[0]:at[1]], rule.new})
			}
		}
		offset += len(line)
	}
	return all
}
