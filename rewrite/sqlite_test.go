package rewrite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlc-dev/meyer/ast"
	"github.com/sqlc-dev/meyer/parser"

	"github.com/fencedsql/fencedsql/rewrite"
)

var grammar = parser.Options{UpdateDeleteLimit: true}

// FuzzSQLite: any text comes out fenced, refused, or as it was because it
// writes no fenced table; and a fenced text is, as a tree, the caller's own
// with the fence in it and nothing else.
func FuzzSQLite(f *testing.F) {
	data, err := os.ReadFile(filepath.Join("..", "dialects", "sqlite", "testdata", "plans.txt"))
	if err != nil {
		f.Fatal(err)
	}
	for _, block := range strings.Split(string(data), "=== ") {
		if _, rest, ok := strings.Cut(block, "\n"); ok {
			text, _, _ := strings.Cut(rest, "\n--- ")
			f.Add(text)
		}
	}
	for _, text := range corpus(f, "sqlite") {
		f.Add(text)
	}
	r := rewriter(f, "sqlite", append(tables, rewrite.Table{Name: "t1", Fence: "fence", Key: []string{"a"}}))
	f.Fuzz(func(t *testing.T, text string) {
		p := r.Plan(text, 0, columns)
		before, err := grammar.ParseString(text)
		switch p.Verdict {
		case rewrite.Refuse:
			return
		case rewrite.Pass:
			if err != nil && r.Names(text) {
				t.Fatalf("%q passes, and no one can read it", text)
			}
			for _, s := range before {
				if name := target(s); name != nil && isFenced(name) {
					t.Fatalf("%q is bare", text)
				}
			}
			return
		}
		if err != nil || len(before) != 1 {
			t.Fatalf("%q is fenced, and reads as %d statements, %v", text, len(before), err)
		}
		after, err := grammar.ParseString(p.Text)
		if err != nil || len(after) != 1 {
			t.Fatalf("%q\nis sent as %q: %d statements, %v", text, p.Text, len(after), err)
		}
		column := p.Guards[0].Table.Fence
		if err := takeFenceOut(after[0], before[0], column); err != nil {
			t.Fatalf("%q\nis sent as %q: %v", text, p.Text, err)
		}
		// Parameters by the argument that they take.
		renumber(before[0], func(n int) string { return fmt.Sprintf("?%d", n) })
		renumber(after[0], func(n int) string { return fmt.Sprintf("?%d", p.Args[n-1]) })
		if got, want := ast.String(after[0]), ast.String(before[0]); got != want {
			t.Fatalf("%q\nis sent as %q:\nwithout the fence %s\nwas %s", text, p.Text, got, want)
		}
		for _, q := range p.Guards {
			if q.Probe != nil {
				if _, err := grammar.ParseString(q.Probe.Text); err != nil {
					t.Fatalf("%q\nis probed with %q: %v", text, q.Probe.Text, err)
				}
			}
		}
	})
}

func target(s ast.Stmt) *ast.QualifiedName {
	switch s := s.(type) {
	case *ast.InsertStmt:
		return s.Table
	case *ast.UpdateStmt:
		return s.Table
	case *ast.DeleteStmt:
		return s.Table
	}
	return nil
}

func isFenced(n *ast.QualifiedName) bool {
	for _, t := range append(tables, rewrite.Table{Name: "t1"}) {
		schema, name := "", t.Name
		if s, n, ok := strings.Cut(t.Name, "."); ok {
			schema, name = s, n
		}
		name = strings.ReplaceAll(strings.Trim(name, `"`), `""`, `"`)
		if strings.EqualFold(n.Name.Name, name) && (schema == "" || n.Schema == nil || strings.EqualFold(n.Schema.Name, schema)) {
			return true
		}
	}
	return false
}

func renumber(s ast.Stmt, raw func(int) string) {
	ast.Walk(s, func(n ast.Node) bool {
		if p, ok := n.(*ast.BindParam); ok {
			p.Raw = raw(p.Number)
		}
		return true
	})
}

// takeFenceOut undoes, in the tree, what fencing adds. What is not where it
// must be is an error.
func takeFenceOut(s, was ast.Stmt, column string) error {
	set := func(pairs *[]*ast.SetPair) error {
		last := len(*pairs) - 1
		p := (*pairs)[last]
		if len(p.Columns) != 1 || !strings.EqualFold(p.Columns[0].Name, column) {
			return fmt.Errorf("the last assignment is not the fence's")
		}
		switch v := p.Value.(type) {
		case *ast.BindParam:
		case *ast.CaseExpr:
			if !strings.Contains(ast.String(v), "fencedsql:") {
				return fmt.Errorf("the assertion raises nothing")
			}
		default:
			return fmt.Errorf("the fence is assigned %s", ast.String(v))
		}
		*pairs = (*pairs)[:last]
		return nil
	}
	// condition takes "AND fence < ?" and the parentheses around the rest off.
	condition := func(where *ast.Expr) error {
		and, ok := (*where).(*ast.BinaryExpr)
		if !ok || and.Op != ast.OpAnd {
			return fmt.Errorf("the condition is not an AND")
		}
		below, ok := and.Y.(*ast.BinaryExpr)
		if !ok || below.Op != ast.OpLt {
			return fmt.Errorf("the condition does not end with the bound")
		}
		id, ok := below.X.(*ast.Ident)
		if _, param := below.Y.(*ast.BindParam); !ok || !param || !strings.EqualFold(id.Name, column) {
			return fmt.Errorf("the bound is not on the fence")
		}
		paren, ok := and.X.(*ast.ParenExpr)
		if !ok {
			return fmt.Errorf("the caller's condition is not in parentheses")
		}
		*where = paren.X
		return nil
	}
	switch s := s.(type) {
	case *ast.UpdateStmt:
		last := s.Set[len(s.Set)-1].Value
		if err := set(&s.Set); err != nil {
			return err
		}
		if _, predicate := last.(*ast.BindParam); predicate {
			return condition(&s.Where)
		}
		return nil
	case *ast.DeleteStmt:
		if n := len(s.Returning); n > 0 {
			if c, ok := s.Returning[n-1].Expr.(*ast.CaseExpr); ok && strings.Contains(ast.String(c), "fencedsql:") {
				s.Returning = s.Returning[:n-1]
				return nil
			}
		}
		return condition(&s.Where)
	case *ast.InsertStmt:
		for _, u := range s.Upserts {
			if !u.DoNothing {
				if err := set(&u.Set); err != nil {
					return err
				}
			}
		}
		last := len(s.Columns) - 1
		if !strings.EqualFold(s.Columns[last].Name, column) {
			return fmt.Errorf("the last column is not the fence")
		}
		s.Columns = s.Columns[:last]
		for _, core := range s.Select.Cores {
			switch c := core.(type) {
			case *ast.ValuesClause:
				for i, row := range c.Rows {
					if _, ok := row[len(row)-1].(*ast.BindParam); !ok {
						return fmt.Errorf("a row does not end with the fence")
					}
					c.Rows[i] = row[:len(row)-1]
				}
				if len(c.Rows) == 1 && len(c.Rows[0]) == 0 {
					s.Select, s.DefaultValues = nil, true
				}
			case *ast.SelectQuery:
				n := len(c.Columns) - 1
				if _, ok := c.Columns[n].Expr.(*ast.BindParam); !ok {
					return fmt.Errorf("a select list does not end with the fence")
				}
				c.Columns = c.Columns[:n]
			}
		}
		if was.(*ast.InsertStmt).Columns == nil {
			s.Columns = nil
		}
		return nil
	}
	return fmt.Errorf("a %T is fenced", s)
}
