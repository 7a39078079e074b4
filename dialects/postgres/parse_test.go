package postgres

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/sqlc-dev/oliphant/parser"

	"github.com/fencedsql/fencedsql/dialects"
)

var update = flag.Bool("update", false, "write testdata anew from what is read now")

const statementsFile = "testdata/statements.txt"

// block is a text of the test data, and what is read in it: lines that begin
// with "> ".
type block struct{ comment, text, want string }

func readBlocks(t testing.TB) []block {
	data, err := os.ReadFile(statementsFile)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []block
	for _, part := range strings.Split(strings.TrimSpace(string(data)), "\n\n") {
		var b block
		for _, line := range strings.SplitAfter(part+"\n", "\n") {
			switch {
			case line == "":
			case strings.HasPrefix(line, "# "):
				b.comment += line
			case strings.HasPrefix(line, "> "):
				b.want += line
			default:
				b.text += line
			}
		}
		b.text = strings.TrimSuffix(b.text, "\n")
		if b.text != "" {
			blocks = append(blocks, b)
		} else if b.comment == "" {
			t.Fatalf("%s: a block without a text: %q", statementsFile, part)
		} else {
			blocks = append(blocks, b)
		}
	}
	if len(blocks) < 50 {
		t.Fatalf("%s: %d blocks: is the file whole?", statementsFile, len(blocks))
	}
	return blocks
}

// TestStatements shows each form of each statement: the text, and the parts
// and places that are read in it.
func TestStatements(t *testing.T) {
	var out strings.Builder
	for i, b := range readBlocks(t) {
		if i > 0 {
			out.WriteString("\n")
		}
		out.WriteString(b.comment)
		if b.text == "" {
			continue
		}
		got := "> " + strings.ReplaceAll(strings.TrimSuffix(describe(t, b.text), "\n"), "\n", "\n> ") + "\n"
		if got != b.want && !*update {
			t.Errorf("%s\nis read as\n%sand not as\n%s", b.text, got, b.want)
		}
		out.WriteString(b.text + "\n" + got)
	}
	if *update {
		if err := os.WriteFile(statementsFile, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// describe prints what is read in a text. Places are shown by the text around
// them, with ‸ at the place.
func describe(t *testing.T, text string) string {
	script, err := dialect{}.Parse(text, 0)
	if err != nil {
		return "error: " + err.Error()
	}
	inspect(t, text, script)
	spliceAll(t, text, script)
	var b strings.Builder
	line := func(format string, args ...any) {
		b.WriteString(strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", `\n`) + "\n")
	}
	at := func(i int) string {
		return text[max(0, i-8):i] + "‸" + text[i:min(len(text), i+8)]
	}
	spans := func(list []dialects.Span) string {
		parts := make([]string, len(list))
		for i, s := range list {
			parts[i] = s.Of(text)
		}
		return strings.Join(parts, " ¦ ")
	}
	set := func(indent string, list []dialects.Assignment, end int) {
		for _, a := range list {
			line("%sset %s: %s  (%s)", indent, strings.Join(a.Columns, ", "), a.Value.Of(text), a.Of(text))
		}
		line("%sset at %s", indent, at(end))
	}
	if len(script.Statements) != 1 {
		line("%d statements", len(script.Statements))
	}
	for _, st := range script.Statements {
		if st.Span != (dialects.Span{End: len(text)}) {
			line("statement: %s", st.Of(text))
		}
		if st.Tx.Verb != dialects.TxNone {
			line("transaction: %s %s", [...]string{"", "begin", "commit", "rollback", "savepoint", "release", "rollback to"}[st.Tx.Verb], st.Tx.Name)
		}
		if len(st.Params) > 0 {
			parts := make([]string, len(st.Params))
			for i, p := range st.Params {
				parts[i] = fmt.Sprintf("%s=%d", p.Of(text), p.Index)
			}
			line("parameters: %s", strings.Join(parts, " "))
		}
		if len(st.Writes) == 0 {
			line("writes nothing")
		}
		for _, w := range st.Writes {
			head := fmt.Sprintf("%v %v (%s)", w.Op, w.Target, w.TargetText)
			for _, f := range []struct {
				on   bool
				word string
			}{{w.Nested, "nested"}, {w.Joined, "joined"}, {w.Limited, "limited"}} {
				if f.on {
					head += " " + f.word
				}
			}
			if w.Ref != "" {
				head += " ref " + w.Ref
			}
			line("%s", head)
			if w.Op == dialects.Other && len(w.Columns) > 0 {
				line("  columns: %s", strings.Join(w.Columns, " ¦ "))
			}
			if w.Reason != "" {
				line("  refused: %s; %s", w.Reason, w.Hint)
				continue
			}
			if w.Op == dialects.Insert {
				if w.HasColumns {
					line("  columns: %s", strings.Join(w.Columns, " ¦ "))
				}
				line("  columns at %s", at(w.ColumnsAt))
				if !w.DefaultValues.IsZero() {
					line("  default values: %s", w.DefaultValues.Of(text))
				}
				for _, r := range w.Rows {
					kind := "row"
					if r.Select {
						kind = "select"
					}
					if r.Open {
						kind += ", open"
					}
					line("  %s: %s at %s", kind, spans(r.Values), at(r.At))
				}
				for _, u := range w.Upserts {
					line("  upsert")
					set("    ", u.Set, u.SetAt)
				}
			}
			if w.Op == dialects.Update {
				set("  ", w.Set, w.SetAt)
			}
			if w.Op != dialects.Insert {
				if w.Where.IsZero() {
					line("  where at %s", at(w.WhereAt))
				} else {
					line("  where %s", w.Where.Of(text))
				}
				for _, c := range w.Conjuncts {
					switch {
					case c.Column == "":
						line("    and %s", c.Of(text))
					case c.Param > 0:
						line("    and %s  (%s = parameter %d)", c.Of(text), c.Column, c.Param)
					default:
						line("    and %s  (%s = a literal)", c.Of(text), c.Column)
					}
				}
			}
			if len(w.Returning) > 0 {
				line("  returning %s", spans(w.Returning))
			}
			line("  returning at %s", at(w.ReturningAt))
		}
	}
	return b.String()
}

// Under standard_conforming_strings = off a backslash escapes in an ordinary
// literal too, so that 'it\'s' goes on where it ends for the parser.
func TestBackslashMode(t *testing.T) {
	for text, readable := range map[string]bool{
		`UPDATE t SET a = 'x\'' WHERE id = 1`:             false,
		`UPDATE t SET a = 'x' 'y\z' WHERE id = 1`:         false,
		`UPDATE t SET a = n'x\z' WHERE id = 1`:            false,
		"UPDATE t SET a = 'x'\n'\\' WHERE id = 1":         false,
		`UPDATE t SET a = E'x\'' WHERE id = 1`:            true,
		`UPDATE t SET a = $$x\$$ WHERE id = 1`:            true,
		`UPDATE t SET a = 'x' /* \ */ WHERE id = 1 -- \`:  true,
		`UPDATE t SET "a\b" = 'x' WHERE id = 1`:           true,
		"UPDATE t SET a = E'x'\n'\\'' WHERE id = 1":       true,
		`UPDATE t SET a = 'ok', b = 'C:\temp' WHERE id=1`: false,
	} {
		_, err := dialect{}.Parse(text, backslashes)
		if readable != (err == nil) {
			t.Errorf("%s: %v", text, err)
		}
		if err != nil && strings.Contains(text, "x") && strings.Contains(err.Error(), "x\\") {
			t.Errorf("the error quotes the text: %v", err)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, text := range []string{
		"UPDATE t SET a = 'secret'' WHERE id = 1",
		"UPDATE t SET a = 'secret' 'secret' WHERE id = 1",
		"UPDATE t SET a = (('secret' WHERE id = 1",
		"UPDATE t SET a = 'secret') WHERE id = 1",
		"UPDATE t SET a = ['secret') WHERE id = 1",
		"UPDATE t SET a = 1 /* secret",
		`UPDATE t SET a = 1 WHERE "secret`,
		"UPDATE t SET a = $secret$ WHERE id = 1",
		"UPDATE t SET a = U&'\\secret' WHERE id = 1",
		"UPDATE t SET a = 1secret",
		"UPDATE secret secret secret",
		"UPDATE t SET a = 'a\x00secret'",
		"UPDATE t SET a = 'secret\xff'",
		"UPDATE t SET a = $0 + 'secret'",
		"UPDATE t SET a = $65536 + 'secret'",
	} {
		script, err := dialect{}.Parse(text, 0)
		if err == nil {
			t.Errorf("%q is read: %v", text, script)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error quotes the text: %v", text, err)
		}
	}
}

// TestHugeTexts wants an answer, whichever, for texts that are long, deep or
// made to be read many times over.
func TestHugeTexts(t *testing.T) {
	nest := func(n int, open, inner, close string) string {
		return "UPDATE t SET a = 1 WHERE " + strings.Repeat(open, n) + inner + strings.Repeat(close, n)
	}
	const n = 100_000
	for name, c := range map[string]struct {
		text string
		read bool
	}{
		"parentheses":       {nest(n, "(", "true", ")"), false},
		"brackets":          {nest(n, "ARRAY[", "1", "]"), false},
		"open":              {nest(n, "(", "", ""), false},
		"closed":            {nest(n, "", "", ")"), false},
		"not":               {nest(n, "NOT ", "true", ""), false},
		"minus":             {nest(n, "- ", "1", ""), false},
		"case":              {nest(n, "CASE WHEN ", "true", " THEN true END"), false},
		"join":              {"DELETE FROM t USING a " + strings.Repeat("JOIN b ", n) + strings.Repeat("ON true ", n), false},
		"subquery":          {nest(n, "(SELECT ", "true", ")"), false},
		"cte":               {strings.Repeat("WITH a AS (", n) + "SELECT 1" + strings.Repeat(") SELECT 1", n), false},
		"substring":         {nest(60, "substring(", "'a'", ")"), false},
		"overlay":           {nest(60, "overlay(", "'a'", ")"), false},
		"json_object":       {nest(60, "json_object(", "'a'", ")"), false},
		"select or not":     {nest(60, "((SELECT ", "true", ") = true)"), false},
		"runs":              {nest(1, strings.Repeat(strings.Repeat("(", 1500)+"true"+strings.Repeat(")", 1500)+" AND ", 300), "true", ""), false},
		"comment":           {strings.Repeat("/*", n) + strings.Repeat("*/", n) + "DELETE FROM t", true},
		"depth of 1000":     {nest(1000, "(", "true", ")"), true},
		"depth of a query":  {nest(500, "(SELECT ", "true", ")"), true},
		"substring in 8":    {nest(8, "substring(", "'a'", ")"), true},
		"conjuncts":         {nest(1, strings.Repeat("a = 1 AND ", n), "true", ""), true},
		"sum":               {nest(1, strings.Repeat("a + ", n), "1", ""), true},
		"casts":             {nest(1, "a", strings.Repeat("::int", n), ""), true},
		"rows":              {"INSERT INTO t (a, b) VALUES ('x', 1)" + strings.Repeat(", ('some text here', 2)", n/2), true},
		"arms":              {"INSERT INTO t (a, b) SELECT 1, 2" + strings.Repeat(" UNION ALL SELECT 1, 2", n/2), true},
		"list":              {"DELETE FROM t WHERE id IN (1" + strings.Repeat(", 12345678", n) + ")", true},
		"a literal":         {"UPDATE t SET a = '" + strings.Repeat("'' text\n", n) + "'", true},
		"parameters":        {"DELETE FROM t WHERE id IN ($1" + strings.Repeat(", $2", n) + ")", true},
		"statements":        {strings.Repeat("DELETE FROM t;", n/2), true},
		"labels, never END": {"INSERT INTO t SELECT 1 AS case" + strings.Repeat(", 2 AS case", 1000), true},
	} {
		t.Run(name, func(t *testing.T) {
			script, err := dialect{}.Parse(c.text, 0)
			if c.read != (err == nil) {
				t.Errorf("%d bytes: %v", len(c.text), err)
			}
			if err == nil && len(script.Statements) == 0 {
				t.Error("nothing was read")
			}
		})
	}
}

// FuzzParse wants that nothing panics, that what the parser takes is read (or
// refused for its depth), that spans are made of tokens, and that what is put
// at the places of a write is read as part of it and changes nothing else.
func FuzzParse(f *testing.F) {
	for _, b := range readBlocks(f) {
		f.Add(b.text)
	}
	for _, text := range corpus(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 2000 {
			return
		}
		script, err := dialect{}.Parse(text, 0)
		if err != nil {
			return
		}
		if _, err := parser.ParseToTree(text); err != nil {
			t.Errorf("read, although the parser does not take it: %v", err)
		}
		inspect(t, text, script)
		for _, st := range script.Statements {
			for _, w := range st.Writes {
				if w.Reason == "its clauses cannot be told apart" {
					t.Errorf("the places of a clause are lost in %q", text)
				}
			}
		}
		spliceAll(t, text, script)
	})
}
