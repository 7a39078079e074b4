package mysql

import (
	"fmt"
	"sort"
	"strings"
	"testing"

	"github.com/fencedsql/fencedsql/dialects"
)

// spliced makes the edits that fencing needs at the places of a script's one
// statement and reads the result: it must be the same writes with one more
// assignment, value, conjunct and result column each. It returns "" or what is wrong.
func spliced(text string, mode dialects.Mode, script *dialects.Script) string {
	if len(script.Statements) != 1 {
		return ""
	}
	const value = "IF(fence < ?, ?, 1)"
	type edit struct {
		at   int
		text string
	}
	var edits []edit
	insert := func(at int, text string) { edits = append(edits, edit{at, text}) }
	markers := 0
	before := script.Statements[0]
	for i, w := range before.Writes {
		if w.Reason != "" {
			return ""
		}
		for _, other := range before.Writes[:i] {
			if fold(last(other.Ref), last(w.Ref)) {
				return "" // two schemas' tables of one name: which is meant depends on the qualifiers
			}
		}
		switch {
		case w.Op == dialects.Insert && w.Set == nil:
			switch {
			case !w.HasColumns:
				insert(w.ColumnsAt, " (fence)")
			case len(w.Columns) == 0:
				insert(w.ColumnsAt, "fence")
			default:
				insert(w.ColumnsAt, ", fence")
			}
			for _, r := range w.Rows {
				markers += 2
				if len(r.Values) == 0 {
					insert(r.At, value)
				} else {
					insert(r.At, ", "+value)
				}
			}
		case w.Set != nil:
			markers += 2
			insert(w.SetAt, ", "+w.Ref+".fence = "+value)
		}
		for _, u := range w.Upserts {
			markers += 2
			insert(u.SetAt, ", "+w.Ref+".fence = "+value)
		}
	}
	// The clauses behind are the statement's, and common to its writes.
	if len(before.Writes) > 0 {
		switch w := before.Writes[0]; {
		case w.Op == dialects.Insert:
		case w.Where.IsZero():
			markers++
			insert(w.WhereAt, " WHERE fence < ?")
		default:
			markers++
			insert(w.Where.Start, "(")
			insert(w.Where.End, ") AND fence < ?")
		}
		if w := before.Writes[0]; w.Op != dialects.Update {
			if w.Returning == nil {
				insert(w.ReturningAt, " RETURNING fence")
			} else {
				insert(w.ReturningAt, ", fence")
			}
		}
	}
	sort.SliceStable(edits, func(i, j int) bool { return edits[i].at < edits[j].at })
	out, at := "", 0
	for _, e := range edits {
		out += text[at:e.at] + e.text
		at = e.at
	}
	out += text[at:]

	again, err := parse(out, mode)
	if err != nil {
		return fmt.Sprintf("%q: %v", out, err)
	}
	if len(again.Statements) != 1 || len(again.Statements[0].Writes) != len(before.Writes) {
		return fmt.Sprintf("%q: other writes", out)
	}
	after := again.Statements[0]
	if len(after.Params) != len(before.Params)+markers {
		return fmt.Sprintf("%q: %d parameters", out, len(after.Params))
	}
	sets := func(before, after []dialects.Assignment) bool {
		if before == nil {
			return after == nil
		}
		last := len(after) - 1
		return last == len(before) && after[last].Columns[0] == "fence" && after[last].Value.Of(out) == value &&
			after[0].Of(out) == before[0].Of(text)
	}
	for i, w := range before.Writes {
		a := after.Writes[i]
		ok := a.Op == w.Op && a.Target == w.Target && a.Ref == w.Ref && a.Reason == "" && a.Joined == w.Joined && a.Limited == w.Limited &&
			len(a.Upserts) == len(w.Upserts) && len(a.Rows) == len(w.Rows)
		if !ok {
			return fmt.Sprintf("%q: write %d is another", out, i)
		}
		if len(w.Set) > 0 && i == len(before.Writes)-1 { // those between have the others' assignments behind their own
			ok = sets(w.Set, a.Set)
		}
		for k := range w.Upserts {
			ok = ok && sets(w.Upserts[k].Set, a.Upserts[k].Set)
		}
		for k, r := range w.Rows {
			last := len(a.Rows[k].Values) - 1
			ok = ok && last == len(r.Values) && a.Rows[k].Values[last].Of(out) == value
		}
		if w.Op == dialects.Insert {
			if w.Set == nil {
				last := len(a.Columns) - 1
				ok = ok && last == len(w.Columns) && a.Columns[last] == "fence"
			}
		} else {
			last := len(a.Conjuncts) - 1
			ok = ok && last == len(w.Conjuncts) && a.Conjuncts[last].Of(out) == "fence < ?"
			for k, c := range w.Conjuncts {
				ok = ok && a.Conjuncts[k].Of(out) == c.Of(text) && a.Conjuncts[k].Column == c.Column
			}
		}
		if w.Op != dialects.Update {
			last := len(a.Returning) - 1
			ok = ok && last == len(w.Returning) && a.Returning[last].Of(out) == "fence"
		}
		if !ok {
			return fmt.Sprintf("%q: write %d has not what was spliced in: %+v", out, i, a)
		}
	}
	return ""
}

// last is the last part of a qualified name.
func last(ref string) string { return ref[strings.LastIndexByte(ref, '.')+1:] }

func TestSpliced(t *testing.T) {
	n := 0
	for _, c := range readCases(t, "testdata/parse.txt") {
		script, err := parse(c.text, c.mode)
		if err != nil || len(script.Statements) == 0 || script.Statements[0].Writes == nil {
			continue
		}
		if problem := spliced(c.text, c.mode, script); problem != "" {
			t.Error(problem)
		}
		n++
	}
	if n < 100 {
		t.Errorf("only %d texts", n)
	}
}
