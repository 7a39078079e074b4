package bench

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/fencedsql/fencedsql/dialects"
	"github.com/fencedsql/fencedsql/rewrite"
)

// grammars are the dialects to measure: how each marks its parameters and begins what follows an INSERT that met a row.
var grammars = []struct{ dialect, marker, upsert string }{
	{"sqlite", "?", "ON CONFLICT (id) DO UPDATE SET"},
	{"postgres", "$", "ON CONFLICT (id) DO UPDATE SET"},
	{"mysql", "?", "ON DUPLICATE KEY UPDATE"},
}

// firstTexts are statements to plan, with "?" for parameters and "UPSERT" for the words above.
var firstTexts = []struct{ name, text string }{
	{"pass", `UPDATE notes SET seen = ? WHERE id = 1`},
	{"update", `UPDATE chats SET summary = ? WHERE id = ?`},
	{"assertion", `UPDATE chats SET seen = ? WHERE owner = ?`},
	{"insert", `INSERT INTO chats (id, owner, summary) VALUES (?, ?, ?)`},
	{"upsert", `INSERT INTO chats (id, owner, summary) VALUES (?, ?, ?) UPSERT summary = 'again'`},
	{"delete", `DELETE FROM chats WHERE id = ?`},
	{"long", `UPDATE chats SET summary = ?, seen = CASE WHEN seen > 10 THEN seen - 10 WHEN seen IS NULL THEN 0 ELSE seen + 1 END, ` +
		strings.Repeat(`owner = (SELECT coalesce(max(n.owner), 0) + 1 FROM notes AS n WHERE n.id <> 17 AND (n.title LIKE 'a%' OR n.title IS NULL)), `, 12) +
		`archived = 0 WHERE id = ? AND (archived = 0 OR archived IS NULL) AND owner IN (SELECT u.id FROM users AS u WHERE u.name <> 'nobody')`},
}

func firstText(text, marker, upsert string) string {
	text = strings.ReplaceAll(text, "UPSERT", upsert)
	if marker == "$" {
		for n := 1; strings.Contains(text, "?"); n++ {
			text = strings.Replace(text, "?", "$"+strconv.Itoa(n), 1)
		}
	}
	return text
}

// BenchmarkFirstSight plans a text as if it had not been seen before. It compares with one parse of the text
// (driver=parse); driver=parses is that and a parse of what is sent, the least that a plan takes which was read again.
// A text that names no fenced table needs no parse.
func BenchmarkFirstSight(b *testing.B) {
	for _, g := range grammars {
		d, err := dialects.Get(g.dialect)
		if err != nil {
			b.Fatal(err)
		}
		for _, n := range []int{1, 20} {
			var registered []rewrite.Table
			for _, t := range tables(n) {
				registered = append(registered, rewrite.Table(t))
			}
			r, err := rewrite.New(d, registered)
			if err != nil {
				b.Fatal(err)
			}
			for _, f := range firstTexts {
				if n > 1 && f.name != "pass" && f.name != "update" {
					continue
				}
				text := firstText(f.text, g.marker, g.upsert)
				p := r.Plan(text, 0, nil)
				if want := map[bool]rewrite.Verdict{true: rewrite.Pass, false: rewrite.Fence}[f.name == "pass"]; p.Verdict != want {
					b.Fatalf("%s: %s: %+v", g.dialect, text, p.Refusal)
				}
				parse := func(b *testing.B, text string) {
					if _, err := d.Parse(text, 0); err != nil {
						b.Fatal(err)
					}
				}
				ways := []way{
					{"parse", func(b *testing.B) func(int) { return func(int) { parse(b, text) } }},
					{"fencedsql", func(*testing.B) func(int) { return func(int) { r.Plan(text, 0, nil) } }},
				}
				if p.Verdict == rewrite.Fence {
					ways = append(ways, way{"parses", func(b *testing.B) func(int) {
						return func(int) { parse(b, text); parse(b, p.Text) }
					}})
				}
				compare(b, fmt.Sprintf("dialect=%s/text=%s/tables=%d", g.dialect, f.name, n), ways)
			}
		}
	}
}
