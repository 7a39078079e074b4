package mysql

import (
	"io"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/format"
)

// The parser leaves it to its user what a literal becomes. Here it becomes
// little, since only its place in the tree counts. The types that come with the
// parser are for its own tests, and panic on a number of many digits; a program
// that links those of TiDB keeps them.
func init() {
	if ast.NewValueExpr != nil {
		return
	}
	ast.NewValueExpr = func(v any, _, _ string) ast.ValueExpr { return &value{v: v, projection: -1} }
	ast.NewParamMarkerExpr = func(int) ast.ParamMarkerExpr { return &param{} }
	ast.NewDecimal = func(s string) (any, error) { return s, nil }
	ast.NewHexLiteral = func(s string) (any, error) { return s, nil }
	ast.NewBitLiteral = func(s string) (any, error) { return s, nil }
}

// value is a literal.
type value struct {
	ast.TexprNode
	v          any
	projection int
}

func (n *value) SetValue(v any)                        { n.v = v }
func (n *value) GetValue() any                         { return n.v }
func (n *value) GetDatumString() string                { return n.GetString() }
func (n *value) GetString() string                     { s, _ := n.v.(string); return s }
func (n *value) GetProjectionOffset() int              { return n.projection }
func (n *value) SetProjectionOffset(offset int)        { n.projection = offset }
func (n *value) Restore(*format.RestoreCtx) error      { return nil }
func (n *value) Format(io.Writer)                      {}
func (n *value) Accept(v ast.Visitor) (ast.Node, bool) { return accept(n, v) }

// param is a parameter marker.
type param struct{ value }

func (n *param) SetOrder(int)                          {}
func (n *param) Accept(v ast.Visitor) (ast.Node, bool) { return accept(n, v) }

func accept(n ast.Node, v ast.Visitor) (ast.Node, bool) {
	n, _ = v.Enter(n)
	return v.Leave(n)
}
