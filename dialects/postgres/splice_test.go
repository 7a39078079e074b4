package postgres

import (
	"slices"
	"strings"
	"testing"

	"github.com/sqlc-dev/oliphant"
	"github.com/sqlc-dev/oliphant/ast"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fencedsql/fencedsql/dialects"
)

// What the test puts at the places of a write.
const (
	newColumn    = "fence"
	newValue     = "$9::text"
	newCondition = "fence < $9::text"
)

// spliceAll makes every edit that the places of the text's writes are for, one
// write at a time, and wants the parser to read what comes out as the tree of
// the text with just these parts added.
func spliceAll(t *testing.T, text string, script *dialects.Script) {
	t.Helper()
	for _, st := range script.Statements {
		for _, w := range st.Writes {
			if w.Reason != "" || w.Op == dialects.Other {
				continue
			}
			tree, err := oliphant.Parse(text)
			if err != nil {
				t.Fatalf("%v in %q", err, text)
			}
			var edits edits
			extend(tree, text, w, &edits)
			spliced := edits.apply(text)
			got, err := oliphant.Parse(spliced)
			if err != nil {
				t.Errorf("%v\n   in %q\n from %q", err, spliced, text)
				continue
			}
			forgetPlaces(tree)
			forgetPlaces(got)
			if !proto.Equal(tree, got) {
				t.Errorf("%q\nreads otherwise than meant by\n%q", spliced, text)
			}
			if !slices.ContainsFunc(mustParse(t, spliced).Statements, func(st dialects.Statement) bool {
				return slices.ContainsFunc(st.Writes, func(v dialects.Write) bool { return v.Op == w.Op && carries(spliced, v) })
			}) {
				t.Errorf("%q\ndoes not show what was put into\n%q", spliced, text)
			}
		}
	}
}

func mustParse(t *testing.T, text string) *dialects.Script {
	t.Helper()
	script, err := dialect{}.Parse(text, 0)
	if err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return script
}

// carries reports whether the write holds the new parts, each as the last of its kind.
func carries(text string, w dialects.Write) bool {
	set := func(list []dialects.Assignment) bool {
		a := list[len(list)-1]
		return len(a.Columns) == 1 && a.Columns[0] == newColumn && a.Value.Of(text) == newValue
	}
	if n := len(w.Returning); n == 0 || w.Returning[n-1].Of(text) != newValue {
		return false
	}
	switch w.Op {
	case dialects.Insert:
		for _, r := range w.Rows {
			if r.Values[len(r.Values)-1].Of(text) != newValue {
				return false
			}
		}
		for _, u := range w.Upserts {
			if !set(u.Set) {
				return false
			}
		}
		return w.HasColumns && w.Columns[len(w.Columns)-1] == newColumn
	case dialects.Update:
		if !set(w.Set) {
			return false
		}
	}
	return w.Conjuncts[len(w.Conjuncts)-1].Of(text) == newCondition
}

type edits []struct {
	dialects.Span
	text string
}

func (e *edits) insert(at int, text string) { e.replace(dialects.Span{Start: at, End: at}, text) }

func (e *edits) replace(s dialects.Span, text string) {
	*e = append(*e, struct {
		dialects.Span
		text string
	}{s, text})
}

func (e edits) apply(text string) string {
	slices.SortStableFunc(e, func(a, b struct {
		dialects.Span
		text string
	}) int {
		return a.Start - b.Start
	})
	var b strings.Builder
	at := 0
	for _, x := range e {
		b.WriteString(text[at:x.Start] + x.text)
		at = x.End
		if at < len(text) && isNamePart(text[at]) && x.text != "(" {
			b.WriteByte(' ') // as in SET a = 'x'WHERE …
		}
	}
	return b.String() + text[at:]
}

// parts of a tree, read anew for every use.
func target(list string) *ast.Node {
	return parsed("SELECT " + list).GetSelectStmt().TargetList[0]
}

func assignment() *ast.Node {
	return parsed("UPDATE t SET " + newColumn + " = " + newValue).GetUpdateStmt().TargetList[0]
}

func condition() *ast.Node {
	return parsed("SELECT 1 WHERE " + newCondition).GetSelectStmt().WhereClause
}

func parsed(text string) *ast.Node {
	tree, err := oliphant.Parse(text)
	if err != nil {
		panic(err)
	}
	return tree.Stmts[0].Stmt
}

// extend adds to the tree of the text what the edits add to the text.
func extend(tree *ast.ParseResult, text string, w dialects.Write, e *edits) {
	returning := func(c **ast.ReturningClause) {
		if *c == nil {
			*c = &ast.ReturningClause{}
			e.insert(w.ReturningAt, " RETURNING "+newValue)
		} else {
			e.insert(w.ReturningAt, ", "+newValue)
		}
		(*c).Exprs = append((*c).Exprs, target(newValue))
	}
	where := func(n **ast.Node) {
		switch {
		case *n == nil:
			*n = condition()
			e.insert(w.WhereAt, " WHERE "+newCondition)
			return
		case (*n).GetBoolExpr().GetBoolop() == ast.BoolExprType_AND_EXPR:
			b := (*n).GetBoolExpr()
			b.Args = append(b.Args, condition())
		default:
			*n = &ast.Node{Node: &ast.Node_BoolExpr{BoolExpr: &ast.BoolExpr{
				Boolop: ast.BoolExprType_AND_EXPR, Args: []*ast.Node{*n, condition()},
			}}}
		}
		e.insert(w.Where.Start, "(")
		e.insert(w.Where.End, ") AND "+newCondition)
	}
	switch w.Op {
	case dialects.Update:
		s := statementAt[*ast.UpdateStmt](tree, w.SetAt)
		s.TargetList = append(s.TargetList, assignment())
		e.insert(w.SetAt, ", "+newColumn+" = "+newValue)
		where(&s.WhereClause)
		returning(&s.ReturningClause)
	case dialects.Delete:
		s := statementAt[*ast.DeleteStmt](tree, max(w.WhereAt, w.Where.Start))
		where(&s.WhereClause)
		returning(&s.ReturningClause)
	case dialects.Insert:
		s := statementAt[*ast.InsertStmt](tree, w.ColumnsAt)
		if w.HasColumns {
			e.insert(w.ColumnsAt, ", "+newColumn)
		} else {
			e.insert(w.ColumnsAt, " ("+newColumn+")")
		}
		s.Cols = append(s.Cols, parsed("INSERT INTO t (" + newColumn + ") VALUES (1)").GetInsertStmt().Cols[0])
		if !w.DefaultValues.IsZero() {
			e.replace(w.DefaultValues, "VALUES ("+newValue+")")
			s.SelectStmt = parsed("VALUES (" + newValue + ")")
		} else {
			for _, arm := range leaves(s.SelectStmt.GetSelectStmt()) {
				for _, l := range arm.ValuesLists {
					l.GetList().Items = append(l.GetList().Items, target(newValue).GetResTarget().Val)
				}
				if len(arm.TargetList) > 0 {
					arm.TargetList = append(arm.TargetList, target(newValue))
				}
			}
			for _, r := range w.Rows {
				e.insert(r.At, ", "+newValue)
			}
		}
		for _, u := range w.Upserts {
			s.OnConflictClause.TargetList = append(s.OnConflictClause.TargetList, assignment())
			e.insert(u.SetAt, ", "+newColumn+" = "+newValue)
		}
		returning(&s.ReturningClause)
	}
}

// statementAt is the statement whose target stands last before a place: no
// statement of its kind is inside another's clauses before that.
func statementAt[S interface {
	proto.Message
	GetRelation() *ast.RangeVar
}](tree *ast.ParseResult, at int) (found S) {
	last := int32(-1)
	walk(tree, func(m protoreflect.ProtoMessage) bool {
		if s, ok := m.(S); ok {
			if l := s.GetRelation().GetLocation(); last < l && int(l) < at {
				last, found = l, s
			}
		}
		return true
	})
	return found
}

// forgetPlaces clears where in the text the nodes of a tree stood.
func forgetPlaces(tree proto.Message) {
	seen := map[proto.Message]bool{}
	walk(tree, func(m protoreflect.ProtoMessage) bool {
		if seen[m] {
			return false
		}
		seen[m] = true
		r := m.ProtoReflect()
		fields := r.Descriptor().Fields()
		for _, name := range []protoreflect.Name{"location", "stmt_location", "stmt_len", "list_start", "list_end", "rexpr_list_start", "rexpr_list_end"} {
			if f := fields.ByName(name); f != nil {
				r.Clear(f)
			}
		}
		return true
	})
}
