package postgres

import (
	"testing"

	"github.com/sqlc-dev/oliphant/parser"
)

// benchTexts are the shapes that programs send most.
var benchTexts = map[string]string{
	"update": "UPDATE chats SET summary = $1, x = $2 WHERE id = $3",
	"upsert": "INSERT INTO chats (id, summary, title) VALUES ($1, $2, $3) ON CONFLICT (id) DO UPDATE SET summary = excluded.summary RETURNING id",
	"cte":    "WITH d AS (DELETE FROM chats WHERE owner = $1 RETURNING id, summary) INSERT INTO archive (id, summary) SELECT id, summary FROM d WHERE summary <> ''",
}

// BenchmarkParse gives, beside the dialect's own Parse, the parser alone.
func BenchmarkParse(b *testing.B) {
	for name, text := range benchTexts {
		b.Run(name+"/dialect", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := (dialect{}).Parse(text, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/parser", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := parser.ParseToTree(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSetsMode(b *testing.B) {
	text := benchTexts["update"]
	for b.Loop() {
		if (dialect{}).SetsMode(text) {
			b.Fatal()
		}
	}
}

func BenchmarkObscured(b *testing.B) {
	text := benchTexts["update"]
	for b.Loop() {
		if (dialect{}).Obscured(text) {
			b.Fatal()
		}
	}
}
