package mysql

import (
	"io"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/charset"
	"github.com/pingcap/tidb/pkg/parser/format"
	"github.com/pingcap/tidb/pkg/parser/types"
)

// The parser leaves it to its user what a literal becomes. Here it becomes
// nothing, since only its place in the tree counts: all literals are one node,
// and all parameters another. The types that come with the parser are for its
// own tests, and panic on a number of many digits; a program that links those
// of TiDB keeps them.
func init() {
	if ast.NewValueExpr != nil {
		return
	}
	ast.NewValueExpr = func(any, string, string) ast.ValueExpr { return value{} }
	ast.NewParamMarkerExpr = func(int) ast.ParamMarkerExpr { return param{} }
	ast.NewDecimal = func(string) (any, error) { return nil, nil }
	ast.NewHexLiteral = func(string) (any, error) { return nil, nil }
	ast.NewBitLiteral = func(string) (any, error) { return nil, nil }
}

// value is a literal. It keeps nothing that it is told.
type value struct{}

func (value) Text() string                            { return "" }
func (value) OriginalText() string                    { return "" }
func (value) SetText(charset.Encoding, string)        {}
func (value) OriginTextPosition() int                 { return 0 }
func (value) SetOriginTextPosition(int)               {}
func (value) GetType() *types.FieldType               { return new(types.FieldType) }
func (value) SetType(*types.FieldType)                {}
func (value) GetFlag() uint64                         { return 0 }
func (value) SetFlag(uint64)                          {}
func (value) GetValue() any                           { return nil }
func (value) SetValue(any)                            {}
func (value) GetDatumString() string                  { return "" }
func (value) GetString() string                       { return "" }
func (value) GetProjectionOffset() int                { return 0 }
func (value) SetProjectionOffset(int)                 {}
func (value) Format(io.Writer)                        {}
func (value) Restore(*format.RestoreCtx) error        { return nil }
func (n value) Accept(v ast.Visitor) (ast.Node, bool) { return accept(n, v) }

// param is a parameter marker.
type param struct{ value }

func (param) SetOrder(int)                            {}
func (n param) Accept(v ast.Visitor) (ast.Node, bool) { return accept(n, v) }

func accept(n ast.Node, v ast.Visitor) (ast.Node, bool) {
	n, _ = v.Enter(n)
	return v.Leave(n)
}
