package mysql

import (
	"fmt"
	"regexp"
	"strconv"
	"sync"

	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/parser/opcode"

	"github.com/fencedsql/fencedsql/dialects"
)

// A parser is large, and not safe for concurrent use.
var parsers = sync.Pool{New: func() any { return parser.New() }}

// keepParser is the length in bytes up to which a text leaves its parser fit
// for the pool: it keeps a stack as deep as its deepest text, and that text's tree.
const keepParser = 64 << 10

var parserModes = [...]struct {
	bit  dialects.Mode
	mode mysql.SQLMode
}{
	{pipesAsConcat, mysql.ModePipesAsConcat},
	{highNotPrecedence, mysql.ModeHighNotPrecedence},
	{ignoreSpace, mysql.ModeIgnoreSpace},
}

// tree parses the statement [lo, hi), without the tokens for which blank holds.
func (s *source) tree(lo, hi int, blank func(i int) bool) (ast.StmtNode, error) {
	text, err := s.clean(lo, hi, blank)
	if err != nil {
		return nil, err
	}
	// Strings and names were made plain by clean, in whatever mode.
	var mode mysql.SQLMode
	for _, m := range parserModes {
		if s.mode&m.bit != 0 {
			mode |= m.mode
		}
	}
	p := parsers.Get().(*parser.Parser)
	p.SetSQLMode(mode)
	stmts, _, err := p.ParseSQL(text)
	if err != nil {
		err = s.syntaxError(lo, hi, err)
	} else if len(stmts) != 1 {
		err = errorAt("more or less than one statement", s.toks[lo].Start)
	}
	var stmt ast.StmtNode
	if err == nil {
		stmt = stmts[0]
	}
	if len(text) <= keepParser {
		parsers.Put(p)
	}
	return stmt, err
}

var column = regexp.MustCompile(`^line 1 column (\d+) near`)

// syntaxError keeps of the parser's error, which quotes the text, where it is.
func (s *source) syntaxError(lo, hi int, err error) error {
	m := column.FindStringSubmatch(err.Error())
	if m == nil {
		return fmt.Errorf("syntax error in the statement at byte %d", s.toks[lo].Start)
	}
	n, _ := strconv.Atoi(m[1])
	at := s.toks[lo].Start + n // the column counts the bytes read, the bad token with them
	for i := lo; i < hi; i++ {
		if t := s.toks[i]; t.End >= at {
			if (t.kind == word || t.kind == op) && t.End-t.Start <= 64 {
				return errorAt(fmt.Sprintf("syntax error near %q", s.of(i)), t.Start)
			}
			return errorAt("syntax error", t.Start)
		}
	}
	return errorAt("syntax error", s.toks[hi-1].End)
}

// The functions below reduce the tree to what parse.go found among the tokens,
// for comparison.

// treeRef is a table that takes part in a statement.
type treeRef struct {
	schema, table, alias string
	derived              bool // a subquery
}

func treeRefs(n ast.ResultSetNode) []treeRef {
	var refs []treeRef
	left := []ast.ResultSetNode{n} // a stack: joins are as deep as long
	for len(left) > 0 {
		n := left[len(left)-1]
		left = left[:len(left)-1]
		switch n := n.(type) {
		case *ast.Join:
			if n.Right != nil {
				left = append(left, n.Right)
			}
			left = append(left, n.Left)
		case *ast.TableSource:
			r := treeRef{alias: n.AsName.O}
			switch t := n.Source.(type) {
			case *ast.TableName:
				r.schema, r.table = t.Schema.O, t.Name.O
			case *ast.Join:
				left = append(left, t)
				continue
			default:
				r.derived = true
			}
			refs = append(refs, r)
		case *ast.TableName:
			refs = append(refs, treeRef{schema: n.Schema.O, table: n.Name.O})
		}
	}
	return refs
}

// treeArm is one SELECT, VALUES or TABLE of a query.
type treeArm struct {
	rows  []int // the number of values of each row; of a SELECT, of its list
	open  bool  // with a star
	table bool
	from  []treeRef
}

func treeArms(n ast.Node) []treeArm {
	var arms []treeArm
	switch n := n.(type) {
	case *ast.SelectStmt:
		var a treeArm
		if n.From != nil {
			a.from = treeRefs(n.From.TableRefs)
		}
		switch n.Kind {
		case ast.SelectStmtKindTable:
			a.table = true
		case ast.SelectStmtKindValues:
			for _, r := range n.Lists {
				a.rows = append(a.rows, len(r.Values))
			}
		default:
			a.rows = []int{len(n.Fields.Fields)}
			for _, f := range n.Fields.Fields {
				a.open = a.open || f.WildCard != nil
			}
		}
		arms = append(arms, a)
	case *ast.SetOprStmt:
		arms = treeArms(n.SelectList)
	case *ast.SetOprSelectList:
		for _, sel := range n.Selects {
			arms = append(arms, treeArms(sel)...)
		}
	}
	return arms
}

// treeConjuncts are the parts of a condition that AND joins, of which there
// may be n.
func treeConjuncts(e ast.ExprNode, n int) []ast.ExprNode {
	parts := make([]ast.ExprNode, 0, n)
	left := []ast.ExprNode{e} // a stack: chains of AND are as deep as long
	for len(left) > 0 {
		e := left[len(left)-1]
		left = left[:len(left)-1]
		switch x := e.(type) {
		case *ast.ParenthesesExpr:
			left = append(left, x.Expr)
			continue
		case *ast.BinaryOperationExpr:
			if x.Op == opcode.LogicAnd {
				left = append(left, x.R, x.L)
				continue
			}
		}
		parts = append(parts, e)
	}
	return parts
}

// treeEquality reads "column = value" in either order, with a value that is a
// literal or a parameter, and gives the column.
func treeEquality(e ast.ExprNode) (column *ast.ColumnName, ok bool) {
	b, ok := e.(*ast.BinaryOperationExpr)
	if !ok || b.Op != opcode.EQ {
		return nil, false
	}
	for _, side := range [][2]ast.ExprNode{{b.L, b.R}, {b.R, b.L}} {
		if c, ok := side[0].(*ast.ColumnNameExpr); ok {
			if _, ok := side[1].(ast.ValueExpr); ok { // markers are such too
				return c.Name, true
			}
		}
	}
	return nil, false
}
