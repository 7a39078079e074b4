package mysql

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fencedsql/fencedsql/dialects"
)

var update = flag.Bool("update", false, "write the files in testdata anew")

// TestParse reads the texts of testdata/parse.txt, each followed by lines that
// begin with ">": what the text is read as.
func TestParse(t *testing.T) {
	const file = "testdata/parse.txt"
	cases := readCases(t, file)
	if len(cases) < 150 {
		t.Fatalf("only %d cases in %s", len(cases), file)
	}
	for i, c := range cases {
		script, err := dialect{}.Parse(c.text, c.mode)
		if err == nil {
			sound(t, c.text, script)
		}
		got := describe(c.text, script, err)
		if got != c.want && !*update {
			t.Errorf("%s\n got:\n%s\nwant:\n%s", c.text, got, c.want)
		}
		cases[i].want = got
	}
	if *update {
		var b strings.Builder
		for _, c := range cases {
			b.WriteString(c.head + c.text + "\n" + c.want + "\n")
		}
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// parseCase is a text and what it is read as. Head are the lines before it:
// "# " and a comment, "#mode " and the sql_mode.
type parseCase struct {
	head, text, want string
	mode             dialects.Mode
}

func readCases(t testing.TB, file string) []parseCase {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []parseCase
	var c parseCase
	for _, line := range strings.SplitAfter(string(data), "\n") {
		switch bare := strings.TrimSuffix(line, "\n"); {
		case bare == "":
			if c.text = strings.TrimSuffix(c.text, "\n"); c.text != "" {
				cases = append(cases, c)
			}
			c = parseCase{}
		case c.text == "" && (strings.HasPrefix(line, "# ") || strings.HasPrefix(line, "#mode ")):
			c.head += line
			if sqlMode, ok := strings.CutPrefix(bare, "#mode "); ok {
				if c.mode, err = modeOf(sqlMode, "utf8mb4"); err != nil {
					t.Fatal(err)
				}
			}
		case strings.HasPrefix(line, ">"):
			c.want += line
		default:
			c.text += line
		}
	}
	return cases
}

// describe writes a script as lines that begin with ">". Places are shown in
// the text itself, in angle brackets.
func describe(text string, script *dialects.Script, err error) string {
	var b strings.Builder
	line := func(format string, args ...any) {
		s := fmt.Sprintf(format, args...)
		b.WriteString("> " + strings.ReplaceAll(s, "\n", "⏎") + "\n")
	}
	if err != nil {
		line("error: %v", err)
		return b.String()
	}
	quote := func(spans []dialects.Span) string {
		var out []string
		for _, s := range spans {
			out = append(out, "‹"+s.Of(text)+"›")
		}
		return strings.Join(out, " ")
	}
	set := func(what string, set []dialects.Assignment) {
		var out []string
		for _, a := range set {
			if !strings.HasPrefix(a.Of(text), a.Value.Of(text)) && !strings.HasSuffix(a.Of(text), a.Value.Of(text)) {
				out = append(out, "BROKEN")
			}
			out = append(out, "‹"+a.Of(text)+"› "+strings.Join(a.Columns, ",")+" ← ‹"+a.Value.Of(text)+"›")
		}
		if len(set) > 0 {
			line("  %s: %s", what, strings.Join(out, "; "))
		}
	}
	for _, st := range script.Statements {
		if len(script.Statements) > 1 {
			line("statement ‹%s›", st.Of(text))
		}
		if st.Tx.Verb != dialects.TxNone {
			line("tx %s", strings.TrimSpace([]string{"", "begin", "commit", "rollback", "savepoint", "release", "rollback to"}[st.Tx.Verb]+" "+st.Tx.Name))
		}
		if st.Writes == nil && st.Tx.Verb == dialects.TxNone {
			line("nothing")
		}
		for _, w := range st.Writes {
			line("%v of %s, written %s, ref %s", w.Op, w.Target, w.TargetText, w.Ref)
			if w.Reason != "" {
				line("  refused: %s; %s", w.Reason, w.Hint)
				if w.Op == dialects.Other {
					if w.Columns != nil {
						line("  columns: %s", strings.Join(w.Columns, ", "))
					}
					continue
				}
			}
			type place struct {
				at   int
				name string
			}
			var places []place
			add := func(at int, name string) { places = append(places, place{at, name}) }
			if w.Op == dialects.Insert {
				if w.Set == nil {
					add(w.ColumnsAt, "columns")
				}
				for _, r := range w.Rows {
					add(r.At, "row")
				}
				for _, u := range w.Upserts {
					add(u.SetAt, "upsert")
				}
			} else {
				add(w.WhereAt, "where")
			}
			if w.Set != nil {
				add(w.SetAt, "set")
			}
			add(w.ReturningAt, "returning")
			slices.SortStableFunc(places, func(a, b place) int { return a.at - b.at })
			var marked strings.Builder
			at := 0
			for _, p := range places {
				marked.WriteString(text[at:p.at] + "⟨" + p.name + "⟩")
				at = p.at
			}
			line("  places: %s", marked.String()+text[at:])
			var flags []string
			for name, on := range map[string]bool{"nested": w.Nested, "joined": w.Joined, "limited": w.Limited, "qualify": w.QualifySet} {
				if on {
					flags = append(flags, name)
				}
			}
			if slices.Sort(flags); flags != nil {
				line("  %s", strings.Join(flags, ", "))
			}
			if w.HasColumns {
				line("  columns: %s", strings.Join(w.Columns, ", "))
			}
			for _, r := range w.Rows {
				kind := "row"
				if r.Select {
					kind = "select list"
				}
				if r.Open {
					kind = "open " + kind
				}
				line("  %s: %s", kind, quote(r.Values))
			}
			set("set", w.Set)
			for _, u := range w.Upserts {
				set("upsert", u.Set)
			}
			if !w.Where.IsZero() {
				line("  where: ‹%s›", w.Where.Of(text))
			}
			for _, c := range w.Conjuncts {
				what := ""
				if c.Column != "" {
					what = fmt.Sprintf(" %s = parameter %d", c.Column, c.Param)
				}
				line("  and: ‹%s›%s", c.Of(text), what)
			}
			if w.Returning != nil {
				line("  returning: %s", quote(w.Returning))
			}
			if w.Op == dialects.Delete {
				line("  with ‹%s› from ‹%s› tail ‹%s›", w.With.Of(text), w.From.Of(text), w.Tail.Of(text))
			}
		}
		if len(st.Params) > 0 {
			var out []string
			for _, p := range st.Params {
				out = append(out, fmt.Sprintf("%d@%d", p.Index, p.Start))
			}
			line("params %s", strings.Join(out, " "))
		}
	}
	return b.String()
}

// sound checks what holds for every script: spans lie in the text, in order,
// and places follow a token.
func sound(t *testing.T, text string, script *dialects.Script) {
	t.Helper()
	whole := len(text)
	if whole > 200 {
		text = text[:200]
	}
	span := func(what string, s dialects.Span, within dialects.Span) {
		t.Helper()
		if s.Start < within.Start || s.End > within.End || s.Start > s.End {
			t.Errorf("%s %v is not in %v of %q", what, s, within, text)
		}
	}
	at := func(what string, i int, within dialects.Span) {
		t.Helper()
		if i <= within.Start || i > within.End {
			t.Errorf("%s %d is not in %v of %q", what, i, within, text)
		}
	}
	assignments := func(set []dialects.Assignment, setAt int, within dialects.Span) {
		t.Helper()
		at("SetAt", setAt, within)
		for _, a := range set {
			span("assignment", a.Span, dialects.Span{Start: within.Start, End: setAt})
			span("value", a.Value, a.Span)
			if len(a.Columns) != 1 {
				t.Errorf("%d columns in an assignment of %q", len(a.Columns), text)
			}
		}
	}
	last := 0
	for _, st := range script.Statements {
		span("statement", st.Span, dialects.Span{Start: last, End: whole})
		last = st.End
		for _, p := range st.Params {
			span("param", p.Span, st.Span)
			if p.End-p.Start != 1 {
				t.Errorf("parameter %v in %q", p.Span, text)
			}
		}
		for _, w := range st.Writes {
			if w.Op == dialects.Other || w.Reason != "" {
				if w.Reason == "" || w.Hint == "" || w.TargetText == "" {
					t.Errorf("%+v of %q", w, text)
				}
				continue
			}
			if w.Ref == "" || w.Target.Table == "" || w.TargetText == "" {
				t.Errorf("no target in %+v of %q", w, text)
			}
			at("ReturningAt", w.ReturningAt, st.Span)
			for _, r := range w.Returning {
				span("RETURNING", r, st.Span)
			}
			switch w.Op {
			case dialects.Insert:
				at("ColumnsAt", w.ColumnsAt, st.Span)
				if (len(w.Rows) > 0) == (len(w.Set) > 0) {
					t.Errorf("rows and SET of %q", text)
				}
				if w.Set != nil {
					assignments(w.Set, w.SetAt, st.Span)
				}
				for _, r := range w.Rows {
					at("row", r.At, st.Span)
					for _, v := range r.Values {
						span("value", v, st.Span)
						if v.End > r.At {
							t.Errorf("value behind its row's end in %q", text)
						}
					}
				}
				for _, u := range w.Upserts {
					assignments(u.Set, u.SetAt, st.Span)
				}
			case dialects.Update, dialects.Delete:
				at("WhereAt", w.WhereAt, st.Span)
				if !w.Where.IsZero() {
					span("WHERE", w.Where, st.Span)
				}
				for _, c := range w.Conjuncts {
					span("conjunct", c.Span, w.Where)
					if (c.Column != "") != (c.Param > 0) {
						t.Errorf("conjunct of %q: column %s, parameter %d", text, c.Column, c.Param)
					}
				}
				if len(w.Conjuncts) == 0 != w.Where.IsZero() {
					t.Errorf("conjuncts of %q", text)
				}
				if w.Op == dialects.Update {
					assignments(w.Set, w.SetAt, st.Span)
				} else if w.From.IsZero() {
					t.Errorf("no FROM in %q", text)
				}
			}
		}
	}
}
