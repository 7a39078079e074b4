package rewrite_test

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/fencedsql/fencedsql/dialects"
	"github.com/fencedsql/fencedsql/rewrite"
)

const (
	mega = 1 << 20
	deep = 100_000
)

// largeTexts make texts of about so many bytes, or ones that are nested to the
// depth of deep, whatever the size. verdicts are what the dialects, in the
// order of their names, make of 128 KiB: f fenced, r refused, p passed.
var largeTexts = []struct {
	name, verdicts string
	text           func(dialect string, size int) string
}{
	// Long.
	{"ANDs", "fff", long("UPDATE j SET v = 1 WHERE id = 1", " AND id = 1", "")},
	{"ORs", "fff", long("UPDATE j SET v = 1 WHERE id = 1", " OR id = 1", "")},
	{"pluses", "fff", long("UPDATE j SET v = 1", " + 1", " WHERE id = 1")},
	{"pipes", "fff", long("UPDATE j SET v = 'a'", " || 'b'", " WHERE id = 1")},
	{"casts", "rfr", long("UPDATE j SET v = 1", "::int", " WHERE id = 1")},
	{"rows", "fff", long("INSERT INTO j (id, v) VALUES (1, 'x')", ", (2, 'yy')", "")},
	{"rows of literals", "fff", long("INSERT INTO j (id, v) VALUES (1, 'x')", ", (12345, 'some text that is a little longer')", "")},
	{"dense rows", "fff", long("INSERT INTO j (id,v) VALUES (1,2)", ",(3,4)", "")},
	{"dense IN", "fff", long("UPDATE j SET v=1 WHERE id IN (1", ",2", ")")},
	{"dense ORs", "fff", long("UPDATE j SET v=1 WHERE(id=1)", "OR(v=1)", "")},
	{"dense sum", "fff", long("UPDATE j SET v=1", "+1", "")},
	{"upsert of rows", "fff", upserted(long("INSERT INTO j (id, v) VALUES (1, 'x')", ", (2, 'yy')", ""))},
	{"IN", "fff", long("UPDATE j SET v = 1 WHERE id IN (1", ", 234", ")")},
	{"string", "fff", long("UPDATE j SET v = '", "x", "' WHERE id = 1")},
	{"adjacent strings", "ffr", long("UPDATE j SET v = 'a'", "\n'b'", " WHERE id = 1")},
	{"quotes", "fff", long("UPDATE j SET v = '", "''", "' WHERE id = 1")},
	{"names a table in a string", "ppp", long("SELECT '", "j ", "'")},
	{"names a table in a comment", "ppp", long("SELECT 1 /*", "j ", "*/")},
	{"comment", "fff", long("UPDATE j /*", "x ", "*/ SET v = 1 WHERE id = 1")},
	{"comments", "fff", long("UPDATE j ", "/*x*/ ", "SET v = 1 WHERE id = 1")},
	{"line comments", "fff", long("UPDATE j ", "-- x\n", "SET v = 1 WHERE id = 1")},
	{"nested comments", "rrr", long("UPDATE j ", "/*", "SET v = 1 WHERE id = 1")},
	{"blanks", "fff", long("UPDATE j ", " ", "SET v = 1 WHERE id = 1")},
	{"CTEs", "fff", long("WITH a AS (SELECT 1)", ", a AS (SELECT 1)", " UPDATE j SET v = 1 WHERE id = 1")},
	{"CTEs that write", "rfr", long("WITH a AS (SELECT 1)", ", a AS (UPDATE j SET v = 1)", " UPDATE j SET v = 1 WHERE id = 1")},
	{"CTEs that delete", "rrr", long("WITH a AS (SELECT 1)", ", a AS (DELETE FROM j)", " UPDATE j SET v = 1 WHERE id = 1")},
	{"CTE that deletes", "rfr", long("WITH a AS (DELETE FROM j RETURNING id) SELECT 1 FROM a WHERE id = 1", " AND id = 1", "")},
	{"write in a subquery", "rfr", long("SELECT (WITH a AS (DELETE FROM j) SELECT 1)", ", 1", "")},
	{"targets", "rrr", long("UPDATE j"+numbered(50, ", a%d")+" SET v = 1", ", v = 1", "")},
	{"conditions of targets", "frr", long("UPDATE j"+numbered(50, ", a%d")+" SET j.v = 1"+numbered(50, ", a%d.v = 1")+" WHERE 1", " AND id = 1", "")},
	{"joins", "fff", long("UPDATE j SET v = 1 WHERE id IN (SELECT 1 FROM a", " JOIN b ON a.x = b.x", ")")},
	{"cross joins", "fff", long("UPDATE j SET v = 1 WHERE id IN (SELECT 1 FROM a", ", b", ")")},
	{"joined tables", "rff", long("UPDATE j SET v = 1 FROM a", " JOIN b ON a.x = b.x", " WHERE j.id = 1")},
	{"waiting joins", "rrf", long("UPDATE j SET v = 1 FROM a", " JOIN b", " WHERE j.id = 1")},
	{"tables", "rrr", long("UPDATE j", ", j", " SET v = 1")},
	{"subqueries", "fff", long("UPDATE j SET v = 1 WHERE id = 1", " AND EXISTS (SELECT 1)", "")},
	{"CASE", "fff", long("UPDATE j SET v = CASE", " WHEN v = 1 THEN 2", " ELSE 3 END")},
	{"CASEs", "fff", long("UPDATE j SET v = 1", " + CASE WHEN v = 1 THEN 2 END", "")},
	{"UNION ALL", "fff", long("INSERT INTO j (id) SELECT 1", " UNION ALL SELECT 2", "")},
	{"UNION ALL in a subquery", "fff", long("UPDATE j SET v = 1 WHERE id IN (SELECT 1", " UNION ALL SELECT 2", ")")},
	{"semicolons", "fff", long("UPDATE j SET v = 1 WHERE id = 1", ";", "")},
	{"statements", "rrr", long("UPDATE j SET v = 1 WHERE id = 1", ";UPDATE j SET v = 1", "")},
	{"other statements", "ppp", long("SELECT 1 AS j", ";SELECT 1", "")},
	{"assignments", "fff", long("UPDATE j SET v = 1", ", v = 1", " WHERE id = 1")},
	{"columns", "fff", long("INSERT INTO j (id", ", v", ") VALUES (1)")},
	{"values", "fff", long("INSERT INTO j (id) VALUES (1", ", 1", ")")},
	{"RETURNING", "fff", long("UPDATE j SET v = 1 WHERE id = 1 RETURNING v", ", v", "")},
	{"ON CONFLICT", "rrf", long("INSERT INTO j (id, v) VALUES (1, 1)", " ON CONFLICT (id) DO UPDATE SET v = 1", "")},
	{"dots", "rfr", long("UPDATE j SET v = a", ".a", " WHERE id = 1")},
	{"name", "fff", long("UPDATE j SET v", "v", " = 1 WHERE id = 1")},
	{"digits", "fff", long("UPDATE j SET v = 1", "1", " WHERE id = 1")},
	{"markers", "fff", marked(long("UPDATE j SET v = 1 WHERE id IN (?", ", ?", ")"))},
	{"rows of markers", "fff", marked(long("INSERT INTO j (id, v) VALUES (?, ?)", ", (?, ?)", ""))},
	{"named markers", "rrf", long("UPDATE j SET v = 1 WHERE id IN (:a", ", :b", ")")},
	{"IN of parentheses", "rrr", long("UPDATE j SET v = 1 WHERE id IN (", "(", "")},
	{"open quote", "rrr", long("UPDATE j SET v = '", "x", "")},
	{"open quotes", "rrr", long("UPDATE j SET v = '", "''", "")},
	{"open comment", "rrr", long("UPDATE j /*", "x", "")},
	{"open name", "rrr", long("UPDATE \"j", "x", "")},
	{"open dollar quotes", "frf", long("UPDATE j SET v = $a$", "$", "")},
	{"dollars", "frf", long("UPDATE j SET v = ", "$a", "")},
	{"operators", "rrr", long("UPDATE j SET v = 1 ", "+-", " 1")},
	{"operators and comments", "rrr", long("UPDATE j SET v = 1 ", "-/**/", " 1")},
	{"backslashes", "rfr", long("UPDATE j SET v = E'", `\\`, "'")},
	{"not UTF-8", "frf", long("UPDATE j SET v = 1 /* \xff */", " + 1", " WHERE id = 1")},
	{"at signs", "rrr", long("UPDATE j SET v = ", "@", "1")},
	{"no SQL", "rrr", long("j ", "j ", "")},
	{"DO", "prr", long("DO $$ UPDATE ", "j ", "$$")},
	{"DROP", "rrr", long("DROP TABLE j", ", j", "")},
	{"TRUNCATE", "rrr", long("TRUNCATE j", ", j", "")},
	{"LIKE", "rrf", long("UPDATE j SET v = 1 WHERE v", " LIKE v", "")},
	{"BETWEEN", "fff", long("UPDATE j SET v = 1 WHERE v BETWEEN 1 AND 2", " AND v BETWEEN 1 AND 2", "")},
	{"COLLATE", "rff", long("UPDATE j SET v = 'a'", " COLLATE x", " WHERE id = 1")},
	{"indirection", "rfr", long("UPDATE j SET v = a", "[1]", " WHERE id = 1")},
	// Deep.
	{"parentheses", "rrr", nested("UPDATE j SET v = 1 WHERE ", "(", "id = 1", ")", "")},
	{"parentheses in a value", "rrr", nested("UPDATE j SET v = ", "(", "1", ")", " WHERE id = 1")},
	{"parentheses in a row", "rrr", nested("INSERT INTO j (id) VALUES (", "(", "1", ")", ")")},
	{"open parentheses", "rrr", nested("UPDATE j SET v = ", "(", "1", "", "")},
	{"shut parentheses", "rrr", nested("UPDATE j SET v = 1", "", "", ")", "")},
	{"NOT", "frr", nested("UPDATE j SET v = 1 WHERE ", "NOT ", "id = 1", "", "")},
	{"minus", "rrr", nested("UPDATE j SET v = ", "- ", "1", "", "")},
	{"tilde", "rrr", nested("UPDATE j SET v = ", "~", "1", "", "")},
	{"SELECT", "rrr", nested("UPDATE j SET v = ", "(SELECT ", "1", ")", "")},
	{"EXISTS", "rrr", nested("UPDATE j SET v = 1 WHERE ", "EXISTS (SELECT 1 WHERE ", "1", ")", "")},
	{"IN in IN", "rrr", nested("UPDATE j SET v = 1 WHERE ", "id IN (SELECT 1 WHERE ", "1 = 1", ")", "")},
	{"FROM", "rrr", nested("UPDATE j SET v = 1 WHERE id IN (SELECT 1 FROM ", "(SELECT * FROM ", "a", ") AS x", ")")},
	{"joins in parentheses", "rrr", nested("UPDATE j SET v = 1 WHERE id IN (SELECT 1 FROM ", "(a JOIN ", "b", ")", ")")},
	{"WITH", "rrr", nested("", "WITH a AS (", "SELECT 1", ") SELECT 1", " /* j */")},
	{"WITH before a write", "rrr", nested("WITH a AS (", "WITH a AS (", "SELECT 1", ") SELECT 1", ") UPDATE j SET v = 1")},
	{"functions", "rrr", nested("UPDATE j SET v = ", "abs(", "1", ")", "")},
	{"functions read twice", "rrr", nested("UPDATE j SET v = ", "substring(", "1", ")", "")},
	{"CASE in CASE", "frr", nested("UPDATE j SET v = ", "CASE WHEN ", "1", " THEN 1 END", "")},
	{"ELSE", "frr", nested("UPDATE j SET v = ", "CASE WHEN 1 THEN 1 ELSE ", "1", " END", "")},
	{"CAST", "rrr", nested("UPDATE j SET v = ", "CAST(", "1", " AS text)", "")},
	{"arrays", "rrr", nested("UPDATE j SET v = ", "ARRAY[", "1", "]", "")},
	{"brackets", "rrr", nested("UPDATE j SET v = a", "[", "1", "]", "")},
	{"rows in rows", "rrr", nested("UPDATE j SET v = ", "ROW(", "1", ")", "")},
	{"INSERT of queries", "rrr", nested("INSERT INTO j (id) ", "(", "SELECT 1", ")", "")},
	{"INSERT of UNIONs", "rrr", nested("INSERT INTO j (id) ", "(SELECT 1 UNION ", "SELECT 1", ")", "")},
	{"INTERVAL", "rrr", nested("UPDATE j SET v = ", "INTERVAL ", "1", " DAY", "")},
	{"EXPLAIN", "prr", nested("", "EXPLAIN ", "UPDATE j SET v = 1", "", "")},
	{"assignments in values", "frr", nested("UPDATE j SET v = ", "@a := ", "1", "", "")},
	{"powers", "ffr", nested("UPDATE j SET v = ", "1 ^ ", "1", "", "")},
	{"binary", "frr", nested("UPDATE j SET v = ", "BINARY ", "1", "", "")},
	{"braces", "rrr", nested("UPDATE j SET v = ", "{d ", "'1'", "}", "")},
	{"sums in parentheses", "rrr", nested("UPDATE j SET v = ", "(1 + ", "1", ")", "")},
	{"IS NULL", "frf", nested("UPDATE j SET v = 1 WHERE ", "", "id = 1", " IS NULL", "")},
	{"filters", "rrr", nested("UPDATE j SET v = ", "count(*) FILTER (WHERE ", "1", ")", "")},
	{"triggers", "rrp", nested("CREATE TRIGGER a AFTER INSERT ON j BEGIN ", "SELECT 1; ", "", "", "END")},
}

func long(before, part, after string) func(string, int) string {
	return func(_ string, size int) string {
		return before + strings.Repeat(part, (size-len(before)-len(after))/len(part)) + after
	}
}

// numbered repeats a part with the numbers below n.
func numbered(n int, part string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, part, i)
	}
	return b.String()
}

func nested(before, open, middle, shut, after string) func(string, int) string {
	return func(string, int) string {
		return before + strings.Repeat(open, deep) + middle + strings.Repeat(shut, deep) + after
	}
}

// upserted ends an INSERT with an upsert.
func upserted(insert func(string, int) string) func(string, int) string {
	return func(dialect string, size int) string {
		if dialect == "mysql" {
			return insert(dialect, size) + " ON DUPLICATE KEY UPDATE v = 1"
		}
		return insert(dialect, size) + " ON CONFLICT (id) DO UPDATE SET v = 1"
	}
}

// marked writes the markers of a text as the dialect does.
func marked(text func(string, int) string) func(string, int) string {
	return func(dialect string, size int) string {
		if dialect == "postgres" {
			return strings.ReplaceAll(text(dialect, size), "?", "$1")
		}
		return text(dialect, size)
	}
}

// TestLarge: texts that are long or deep end in a plan or a refusal, with
// memory in proportion. How long a megabyte takes is in BenchmarkLarge.
func TestLarge(t *testing.T) {
	// A stack that overflows, at 1 GB, ends the process. So much less leaves
	// room for texts that are many times as long.
	defer debug.SetMaxStack(debug.SetMaxStack(64 << 20))
	for i, dialect := range dialects.Names() {
		r := rewriter(t, dialect, tables[:1])
		for _, l := range largeTexts {
			t.Run(dialect+"/"+l.name, func(t *testing.T) {
				text := l.text(dialect, mega/8)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				p := r.Plan(text, 0, columns)
				runtime.ReadMemStats(&after)
				if got := "pfr"[p.Verdict]; got != l.verdicts[i] {
					t.Errorf("verdict %c, want %c: %+v", got, l.verdicts[i], p.Refusal)
				}
				if r := p.Refusal; r != nil && (r.Reason == "" || r.Hint == "" || len(r.Reason) > 200) {
					t.Errorf("%+v", r)
				}
				// The densest text takes some 700 bytes for one of its own.
				if n := after.TotalAlloc - before.TotalAlloc; n > 1500*uint64(len(text)) {
					t.Errorf("%d bytes of memory for %d bytes of text", n, len(text))
				}
			})
		}
	}
}

// TestManyTables: a fenced table is seen behind more tables than are kept apart.
func TestManyTables(t *testing.T) {
	for _, c := range []struct{ dialect, before, part, after string }{
		{"mysql", "DROP TABLE ", "a, ", "j"},
		{"mysql", "RENAME TABLE ", "a TO b, ", "j TO b"},
		{"mysql", "ALTER TABLE a ", "DROP a, ", "RENAME j"},
		{"postgres", "DROP TABLE ", "a, ", "j"},
		{"postgres", "TRUNCATE ", "a, ", "j"},
		{"postgres", "WITH ", "a AS (UPDATE b SET v = 1), ", "b AS (UPDATE j SET v = 1) SELECT 1"},
	} {
		r := rewriter(t, c.dialect, tables[:1])
		if p := r.Plan(c.before+strings.Repeat(c.part, 10_100)+c.after, 0, columns); p.Verdict != rewrite.Refuse {
			t.Errorf("%s: %s%s…%s: verdict %d", c.dialect, c.before, c.part, c.after, p.Verdict)
		}
	}
}

func BenchmarkLarge(b *testing.B) {
	for _, dialect := range dialects.Names() {
		r := rewriter(b, dialect, tables[:1])
		for _, l := range largeTexts {
			b.Run(dialect+"/"+l.name, func(b *testing.B) {
				text := l.text(dialect, mega)
				b.ReportAllocs()
				for b.Loop() {
					r.Plan(text, 0, columns)
				}
			})
		}
	}
}
