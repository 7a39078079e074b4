package mysql

import (
	"strings"
	"testing"
)

// TestLimits: texts that are deep or long give an error or a script.
func TestLimits(t *testing.T) {
	const size = 256 << 10
	deep := func(before, open, middle, shut, after string, n int) string {
		return before + strings.Repeat(open, n) + middle + strings.Repeat(shut, n) + after
	}
	long := func(before, part, after string) string {
		return before + strings.Repeat(part, (size-len(before)-len(after))/len(part)) + after
	}
	texts := map[string]string{
		"parentheses":        deep("UPDATE j SET v = 1 WHERE ", "(", "id = 1", ")", "", 100_000),
		"parentheses, below": deep("UPDATE j SET v = 1 WHERE ", "(", "id = 1", ")", "", maxDepth),
		"functions":          deep("UPDATE j SET v = ", "abs(", "1", ")", "", maxDepth),
		"subqueries":         deep("UPDATE j SET v = ", "(SELECT ", "1", ")", "", maxDepth),
		"derived tables":     deep("DELETE FROM a USING a JOIN ", "(SELECT * FROM ", "b", ") AS x", "", maxDepth),
		"joins":              deep("UPDATE ", "(a JOIN ", "b", ")", " SET a.v = 1", 200),
		"queries":            deep("INSERT INTO j ", "(", "SELECT 1", ")", "", maxDepth),
		"CASE":               deep("UPDATE j SET v = ", "CASE WHEN ", "1", " THEN 2 END", "", 100_000),
		"NOT":                deep("UPDATE j SET v = ", "NOT ", "1", "", "", 100_000),
		"minus":              deep("UPDATE j SET v = ", "- ", "1", "", "", 100_000),
		"right operators":    deep("UPDATE j SET v = ", "@a := ", "1", "", "", 100_000),
		"open parentheses":   long("UPDATE j SET v = ", "(", ""),
		"shut parentheses":   long("UPDATE j SET v = ", ")", ""),
		"sum":                long("UPDATE j SET v = 1", " + 1", ""),
		"ANDs":               long("UPDATE j SET v = 1 WHERE id = ?", " AND id = ?", ""),
		"ANDs, wrapped":      long("UPDATE j SET v = 1 WHERE id = ?", " AND (id = ?)", ""),
		"ORs":                long("UPDATE j SET v = 1 WHERE id = ?", " OR id = ?", ""),
		"IN":                 long("DELETE FROM j WHERE id IN (?", ", ?", ")"),
		"rows":               long("INSERT INTO j (a, b) VALUES (?, ?)", ", (?, ?)", ""),
		"columns":            long("INSERT INTO j (a", ", a", ") VALUES (1)"),
		"unions":             long("INSERT INTO j SELECT 1", " UNION SELECT 1", ""),
		"assignments":        long("UPDATE j SET v = 1", ", v = 1", ""),
		"tables":             long("UPDATE j", ", j", " SET v = 1"),
		"targets":            long("DELETE a", ", a", " FROM a, b"),
		"string":             long("UPDATE j SET v = '", "x", "'"),
		"open string":        long("UPDATE j SET v = '", "''", ""),
		"backslashes":        long("UPDATE j SET v = '", `\\`, "'"),
		"comment":            long("UPDATE j /*", "*", "*/ SET v = 1"),
		"comments":           long("UPDATE j", "/**/", " SET v = 1"),
		"dashes":             long("UPDATE j SET v = 1", "--", ""),
		"number":             long("UPDATE j SET v = ", "1", ""),
		"name":               long("UPDATE j SET v", "a", " = 1"),
		"dots":               long("UPDATE j SET v", ".a", " = 1"),
		"statements":         long("UPDATE j SET v = 1", "; UPDATE j SET v = 1", ""),
		"semicolons":         long("", ";", ""),
		"CTEs":               long("WITH a AS (SELECT 1)", ", a AS (SELECT 1)", " DELETE FROM j"),
		"ALTER":              long("ALTER TABLE j DROP a", ", DROP a", ""),
		"RENAME":             long("RENAME TABLE a TO b", ", a TO b", ""),
		"query":              long("SELECT 1", " + 1", ""),
	}
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			script, err := dialect{}.Parse(text, 0)
			if err == nil {
				sound(t, text, script)
			} else if len(err.Error()) > 200 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

// TestLength: what may be as deep a tree as it is long ends somewhere. Rows are
// not deep.
func TestLength(t *testing.T) {
	for text, want := range map[string]bool{
		"UPDATE j SET v = 1" + strings.Repeat("+1", maxLength/2):                            false,
		"UPDATE j SET v = 1 WHERE (0 = (1" + strings.Repeat("+1", maxLength/2) + "))":       false,
		"UPDATE j SET v = 1" + strings.Repeat("+1", maxLength/2-10):                         true,
		"INSERT INTO j VALUES (1, 2)" + strings.Repeat(", (1, 2)", maxLength/2):             true,
		strings.Repeat("UPDATE j SET v = 1 + 1;", maxLength/4):                              true,
		strings.Repeat("UPDATE j SET v = 1;", 9) + strings.Repeat("SELECT 1, 2", maxLength): false,
	} {
		if _, err := lex(text, 0); (err == nil) != want {
			t.Errorf("%.40s…: %v", text, err)
		}
	}
}
