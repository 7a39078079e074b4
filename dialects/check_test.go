package dialects_test

import (
	"database/sql/driver"
	"strings"
	"testing"

	"github.com/fencedsql/fencedsql/dialects"
)

func TestIsUnique(t *testing.T) {
	for name, c := range map[string]struct {
		key, indexes string // index.column, with a ! behind what does not count
		want         bool
	}{
		"the key":       {"a", "1.a", true},
		"another case":  {"A", "1.a", true},
		"in any order":  {"a b", "2.c 1.b 2.a 1.a", true},
		"narrower":      {"a b", "1.a", true},
		"wider":         {"a", "1.a 1.b", false},
		"wider, apart":  {"a", "1.b 2.c 1.a", false},
		"does not":      {"a", "1.a!", false},
		"half does not": {"a b", "1.a 1.b!", false},
		"half, first":   {"a b", "1.a! 1.b", false},
		"another does":  {"a b", "1.a! 2.a", true},
		"none":          {"a", "", false},
	} {
		var indexes []dialects.IndexColumn
		for _, f := range strings.Fields(c.indexes) {
			index, column, _ := strings.Cut(f, ".")
			column, not := strings.CutSuffix(column, "!")
			indexes = append(indexes, dialects.IndexColumn{Index: index, Column: column, Counts: !not})
		}
		if got := dialects.IsUnique(strings.Fields(c.key), indexes, strings.EqualFold); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestText(t *testing.T) {
	for want, v := range map[string]driver.Value{"": nil, "a": "a", "b": []byte("b"), "1": int64(1)} {
		if got := dialects.Text(v); got != want {
			t.Errorf("Text(%#v) = %q", v, got)
		}
	}
}

// TestAddWrite: a statement that is full has a write that may be of any table
// that it names.
func TestAddWrite(t *testing.T) {
	const text = "; DROP TABLE a, b"
	st := dialects.Statement{Span: dialects.Span{Start: 2, End: len(text)}}
	n := 0
	for ; !st.Full() && n < 1_000_000; n++ {
		st.AddWrite(text, dialects.Write{Target: dialects.Name{Table: "a"}})
	}
	st.AddWrite(text, dialects.Write{Target: dialects.Name{Table: "b"}})
	last := st.Writes[len(st.Writes)-1]
	if len(st.Writes) != n || last.Target != (dialects.Name{}) || last.TargetText != "DROP TABLE a, b" || last.Op != dialects.Other || last.Reason == "" {
		t.Errorf("%d writes, the last %+v", len(st.Writes), last)
	}
}

func TestMatches(t *testing.T) {
	for names, want := range map[string]bool{
		"a a": true, "a A": true, "s.a a": true, "a s.a": true, "s.a S.A": true, "s.a r.a": false, "a b": false, "s.a s.b": false,
	} {
		var name [2]dialects.Name
		for i, s := range strings.Fields(names) {
			var err error
			if name[i], err = dialects.ParseName(s); err != nil {
				t.Fatal(err)
			}
		}
		if got := name[0].Matches(name[1], strings.EqualFold); got != want {
			t.Errorf("%s: %v", names, got)
		}
	}
}
