package postgres

import (
	"testing"

	"github.com/sqlc-dev/oliphant"

	"github.com/fencedsql/fencedsql/dialects"
)

// inspect wants every span to lie within the text and its statement and to
// begin and end with a token, and every place to follow one.
func inspect(t *testing.T, text string, script *dialects.Script) {
	t.Helper()
	scan, err := oliphant.Scan(text)
	if err != nil {
		t.Errorf("a text is read whose tokens are not: %v in %q", err, text)
		return
	}
	starts, ends := map[int]bool{}, map[int]bool{}
	for _, tok := range scan.Tokens {
		if tok.Token == oliphant.Token_SQL_COMMENT || tok.Token == oliphant.Token_C_COMMENT {
			continue
		}
		starts[int(tok.Start)] = true
		ends[int(tok.End)] = true
	}
	for _, st := range script.Statements {
		span := func(what string, s dialects.Span) {
			if !starts[s.Start] || !ends[s.End] || s.Start >= s.End || s.Start < st.Start || s.End > st.End {
				t.Errorf("%s %v is not made of tokens in %q", what, s, text)
			}
		}
		at := func(what string, i int) {
			if !ends[i] || i < st.Start || i > st.End {
				t.Errorf("%s %d follows no token in %q", what, i, text)
			}
		}
		set := func(list []dialects.Assignment, end int) {
			for _, a := range list {
				span("assignment", a.Span)
				span("value", a.Value)
				if len(a.Columns) == 0 || a.Columns[0] == "" {
					t.Errorf("an assignment of no column in %q", text)
				}
			}
			if len(list) == 0 || list[len(list)-1].End != end {
				t.Errorf("SetAt %d does not end the list in %q", end, text)
			}
		}
		span("statement", st.Span)
		for _, p := range st.Params {
			span("parameter", p.Span)
		}
		for _, w := range st.Writes {
			if w.Target.Table == "" && w.Op != dialects.Other {
				t.Errorf("a write of no table in %q", text)
			}
			if w.Reason != "" {
				continue
			}
			if w.Op != dialects.Insert {
				if w.Where.IsZero() {
					at("WhereAt", w.WhereAt)
				} else {
					span("Where", w.Where)
				}
			}
			for _, c := range w.Conjuncts {
				span("conjunct", c.Span)
			}
			at("ReturningAt", w.ReturningAt)
			for _, r := range w.Returning {
				span("returned column", r)
			}
			switch w.Op {
			case dialects.Update:
				set(w.Set, w.SetAt)
			case dialects.Insert:
				at("ColumnsAt", w.ColumnsAt)
				for _, u := range w.Upserts {
					set(u.Set, u.SetAt)
				}
				if (len(w.Rows) == 0) == w.DefaultValues.IsZero() {
					t.Errorf("an INSERT without rows in %q", text)
				}
				for _, r := range w.Rows {
					at("Row.At", r.At)
					for _, v := range r.Values {
						span("value", v)
					}
					if n := len(r.Values); n == 0 || r.Values[n-1].End != r.At {
						t.Errorf("Row.At does not end a row in %q", text)
					}
				}
			}
		}
	}
}
