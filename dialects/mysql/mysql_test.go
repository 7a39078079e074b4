package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/fencedsql/fencedsql/dialects"
	"github.com/fencedsql/fencedsql/lease"
)

func TestRegistered(t *testing.T) {
	d, err := dialects.Get("mysql")
	if err != nil || d.Name() != "mysql" {
		t.Errorf("%v, %v", d, err)
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		registered, written string
		want                bool
	}{
		{"chats", "chats", true},
		{"chats", "CHATS", true},
		{"chats", "app.chats", true},
		{"app.chats", "Chats", true},
		{"app.chats", "App.chats", true},
		{"app.chats", "other.chats", false},
		{"chats", "chat", false},
		{"größe", "GRÖSSE", false},
		{"größe", "GRÖßE", true},
		{"chats", "chatſ", true},
		{"kits", "Kıts", true},
		{"kits", "KİTS", true},
	} {
		name := func(s string) dialects.Name {
			if schema, table, ok := strings.Cut(s, "."); ok {
				return dialects.Name{Schema: schema, Table: table}
			}
			return dialects.Name{Table: s}
		}
		if got := (dialect{}).Matches(name(c.registered), name(c.written)); got != c.want {
			t.Errorf("Matches(%s, %s) = %v", c.registered, c.written, got)
		}
	}
	if !(dialect{}).SameColumn("Fence", "fENCE") || (dialect{}).SameColumn("fence", "fences") {
		t.Error("SameColumn")
	}
}

func TestObscured(t *testing.T) {
	for text, want := range map[string]bool{
		"UPDATE chats SET v = 1":     false,
		"UPDATE größe SET v = 1":     false,
		"UPDATE chatſ SET v = 1":     true,
		"UPDATE \u212aits SET v = 1": true,
		"UPDATE kİts SET v = 1":      true,
		"UPDATE `a``b` SET v":        true,
		"UPDATE `ab` SET v = ''":     false,

		"PREPARE s FROM @t":                               true,
		" ;\n\tprepare/**/s/**/FROM'x'":                   true,
		"/* SELECT */ PREPARE s FROM @t":                  true,
		"-- x\nPREPARE s FROM @t":                         true,
		"#\nEXECUTE IMMEDIATE @t":                         true,
		"/*! PREPARE s FROM @t */":                        true,
		"\u00a0PREPARE s FROM @t":                         true,
		"\xa0PREPARE\xa0s FROM @t":                        true,
		"execute /* */ immediate concat(?, ?)":            true,
		"SET STATEMENT a = 1 FOR EXECUTE IMMEDIATE @t":    true,
		"SELECT 1;PREPARE s FROM @t":                      true,
		"select: BEGIN NOT ATOMIC PREPARE s FROM @t; END": true,
		"selects: LOOP PREPARE s FROM @t; END LOOP":       true,
		"IF 1 THEN EXECUTE IMMEDIATE @t; END IF":          true,
		"ELSE PREPARE s FROM @t":                          true,
		"EXECUTE s":                                       false,
		"EXECUTE s USING @immediate":                      true, // a doubt, for the parser
		"DEALLOCATE PREPARE s":                            false,
		"XA PREPARE 'x'":                                  false,
		"SELECT 'PREPARE s FROM @t';":                     false,
		"SELECT prepare FROM t":                           false,
		"CALL prepare('from')":                            false,
		"SET @prepared = 'from'":                          false,
		"SET":                                             false,
		"s":                                               false,
		"":                                                false,
		" ":                                               false,
	} {
		if got := (dialect{}).Obscured(text); got != want {
			t.Errorf("Obscured(%s) = %v", text, got)
		}
	}
}

func TestQuote(t *testing.T) {
	for name, want := range map[string]string{
		"fence":         "fence",
		"summary_fence": "summary_fence",
		"Chats2":        "Chats2",
		"status":        "status", // a keyword, and not reserved
		"order":         "`order`",
		"RANK":          "`RANK`",
		"lead":          "`lead`",
		"returning":     "`returning`",
		"offset":        "`offset`",
		"a b":           "`a b`",
		"a`b":           "`a``b`",
		"1a":            "`1a`",
		"_utf8":         "`_utf8`",
		"größe":         "`größe`",
		"a.b":           "`a.b`",
		"":              "``",
	} {
		if got := (dialect{}).Quote(name); got != want {
			t.Errorf("Quote(%s) = %s", name, got)
		}
	}
}

func TestAssert(t *testing.T) {
	for enc, want := range map[lease.Encoding]string{
		lease.Text:  "IF(j.f < ?, ?, CAST(9223372036854775807 + length(j.f) AS CHAR))",
		lease.Int64: "IF(j.f < ?, ?, 9223372036854775807 + length(j.f))",
	} {
		if got := (dialect{}).Assert("j.f", "?", "?", enc); got != want {
			t.Errorf("Assert for %v: %s", enc, got)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		text, column string
		want         bool
	}{
		{"Error 1690 (22003): BIGINT value is out of range in '9223372036854775807 + octet_length(`app`.`j`.`fence`)'", "fence", true},                 // MariaDB 10.11
		{"Error 1690 (22003): BIGINT value is out of range in '9223372036854775807 + octet_length(\"app\".\"j\".\"fence\")'", "fence", true},           // with ANSI_QUOTES
		{"Error 1690 (22003): BIGINT value is out of range in '9223372036854775807 + octet_length(`app`.`a b`.`Fence`)'", "fence", true},               //
		{"Error 1690 (22003): BIGINT value is out of range in '(9223372036854775807 + length(`app`.`j`.`fence`))'", "fence", true},                     // MySQL 8
		{"Error 1690: BIGINT value is out of range in '(9223372036854775807 + length(app.j.fence))'", "fence", true},                                   // TiDB, an older driver
		{"exec: Error 1690 (22003): BIGINT-Wert ist außerhalb des Bereichs in '9223372036854775807 + octet_length(`app`.`j`.`fence`)'", "fence", true}, // German, wrapped
		{"Error 1690 (22003): BIGINT value is out of range in '9223372036854775807 + octet_length(`app`.`j`.`old_fence`)'", "fence", false},
		{"Error 1690 (22003): BIGINT value is out of range in '9223372036854775807 + octet_length(`app`.`j`.`fence2`)'", "fence", false},
		{"Error 1690 (22003): BIGINT value is out of range in '9223372036854775807 + octet_length(`app`.`j`.`a``b`)'", "a`b", true},
		{"Error 1690 (22003): BIGINT value is out of range in '9223372036854775807 + octet_length(`app`.`" + strings.Repeat("j", 300), "fence", true}, // cut off
		{"Error 1690 (22003): BIGINT value is out of range in '9223372036854775807 + `app`.`j`.`fence`'", "fence", false},
		{"Error 1690 (22003): BIGINT UNSIGNED value is out of range in '`app`.`j`.`v` - 1'", "fence", false},
		{"Error 1062 (23000): Duplicate entry '9223372036854775807 + length(fence)' for key 'fence'", "fence", false},
	} {
		_, known, refused := dialect{}.Refused(errors.New(c.text), c.column, lease.Text)
		if refused != c.want || known {
			t.Errorf("Refused(%s, %s) = %v, known %v", c.text, c.column, refused, known)
		}
	}
}

// answers is a Querier that answers every query whose text contains the key.
type answers map[string][][]driver.Value

func (a answers) Query(_ context.Context, text string, args ...driver.Value) ([][]driver.Value, error) {
	if n := strings.Count(text, "?"); n != len(args) {
		return nil, errors.New("arguments do not fit the markers of " + text)
	}
	for key, rows := range a {
		if strings.Contains(text, key) {
			return rows, nil
		}
	}
	return nil, errors.New("no answer to " + text)
}

func TestMode(t *testing.T) {
	for _, c := range []struct {
		sqlMode, charset driver.Value
		want             dialects.Mode
		err              string
	}{
		{"", "utf8mb4", 0, ""},
		{[]byte("STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO"), []byte("utf8mb3"), 0, ""},
		{"REAL_AS_FLOAT,PIPES_AS_CONCAT,ANSI_QUOTES,IGNORE_SPACE,ANSI", "utf8", pipesAsConcat | ansiQuotes | ignoreSpace, ""},
		{"NO_BACKSLASH_ESCAPES,HIGH_NOT_PRECEDENCE", "latin1", noBackslashEscapes | highNotPrecedence | notUTF8, ""},
		{"PIPES_AS_CONCAT,ANSI_QUOTES,IGNORE_SPACE,ORACLE", "utf8mb4", 0, "ORACLE"},
		{"MSSQL", "utf8mb4", 0, "MSSQL"},
		{"NEW_MODE", "utf8mb4", 0, "NEW_MODE"},
		{"", "gbk", 0, "gbk"},
		{"", "big5", 0, "big5"},
		{"", "sjis", 0, "sjis"},
		{"", "cp932", 0, "cp932"},
		{"", "gb18030", 0, "gb18030"},
		{"", "swe7", 0, "swe7"},
		{"", "gb2312", notUTF8, ""},
		{"", "euckr", notUTF8, ""},
		{"", "ujis", notUTF8, ""},
		{"", "binary", notUTF8, ""},
	} {
		got, err := dialect{}.Mode(context.Background(), answers{"sql_mode": {{c.sqlMode, c.charset, "1"}}})
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("Mode of %s, %s: %v, %v", c.sqlMode, c.charset, got, err)
		}
	}
	if _, err := (dialect{}).Mode(context.Background(), answers{"sql_mode": {}}); err == nil {
		t.Error("Mode of no answer")
	}
}

func TestNotUTF8(t *testing.T) {
	for text, ok := range map[string]bool{
		"UPDATE chats SET v = 'ü\xff' WHERE id = ? -- ü\xff": true,
		"UPDATE gr\xf6\xdfe SET v = 1":                       false,
		"UPDATE `gr\xf6\xdfe` SET v = 1":                     false,
		"UPDATE größe SET v = 1":                             false,
		"UPDATE chats SET v = @ü":                            false,
	} {
		if _, err := parse(text, notUTF8); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, ok := range map[string]bool{
		"UPDATE chats SET v = 'ü\xff' WHERE id = ? -- ü\xff": true,
		"UPDATE chats SET v = '\xc3' WHERE id = '?'":         true,
		"UPDATE chats\xa0SET v = 1":                          false,
		"UPDATE chats SET v = 1 \x85":                        false,
		"UPDATE `cha\xfft` SET v = 1":                        false,
	} {
		script, err := parse(text, 0)
		if (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
		if err == nil {
			sound(t, text, script)
		}
	}
}

func TestNUL(t *testing.T) {
	for _, text := range []string{"\x00", "UPDATE chats SET v = 1\x00", "UPDATE chats SET v = '\x00'", "SELECT 1 -- \x00"} {
		if _, err := parse(text, 0); err == nil || !strings.Contains(err.Error(), "NUL") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestSetsMode(t *testing.T) {
	for text, want := range map[string]bool{
		"SET sql_mode = 'ANSI'":                      true,
		" set\tsession SQL_MODE=''":                  true,
		"SET @a = 1, @@session.sql_mode = ''":        true,
		"SET NAMES gbk":                              true,
		"SET CHARACTER SET latin1":                   true,
		"SET character_set_client = gbk":             true,
		"/* x */ SET NAMES gbk":                      true,
		"-- x\nSET NAMES gbk":                        true,
		"# x\nSET NAMES gbk":                         true,
		"SELECT 1; SET NAMES gbk":                    true,
		";SET NAMES gbk":                             true,
		"CALL p()":                                   true,
		"EXECUTE s":                                  true,
		"SET @a = 1":                                 false,
		"SET SESSION wait_timeout = 1":               false,
		"SELECT names FROM chars":                    false,
		"SELECT names FROM chars;":                   true, // a doubt
		"UPDATE chats SET v = 1":                     false,
		"":                                           false,
		"INSERT INTO users (names) VALUES (?)":       false,
		"SELECT @@sql_mode":                          false,
		"/* a comment */ SELECT id FROM t WHERE x=?": false,
	} {
		if got := (dialect{}).SetsMode(text); got != want {
			t.Errorf("SetsMode(%q) = %v", text, got)
		}
	}
}

// TestConcurrent is for the race detector: the parser itself is not safe.
func TestConcurrent(t *testing.T) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 100 {
				mode := dialects.Mode(i%2) * pipesAsConcat
				script, err := parse("UPDATE chats SET v = 1 WHERE id = ? || a AND b = ?", mode)
				if err != nil || len(script.Statements[0].Writes[0].Conjuncts) != 1+i%2 {
					t.Errorf("%v, %v", script, err)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkParse(b *testing.B) {
	for name, text := range map[string]string{
		"update": "UPDATE chats SET summary = ?, seen = now() WHERE id = ? AND v = 'x'",
		"upsert": "INSERT INTO chats (id, summary, v) VALUES (?, ?, ?), (?, ?, ?) ON DUPLICATE KEY UPDATE summary = VALUES(summary)",
		"select": "SELECT id, summary FROM chats JOIN users ON users.id = chats.user_id WHERE chats.id = ? ORDER BY v LIMIT 10",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := parse(text, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkObscured(b *testing.B) {
	for name, text := range map[string]string{
		"update": "UPDATE notes SET seen = ? WHERE id = 1",
		"insert": "INSERT INTO notes (id, seen) VALUES (?, ?)",
		"select": "SELECT id, summary FROM chats JOIN users ON users.id = chats.user_id WHERE chats.id = ? ORDER BY v LIMIT 10",
		"set":    "SET SESSION wait_timeout = 1",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				dialect{}.Obscured(text)
			}
		})
	}
}

func BenchmarkSetsMode(b *testing.B) {
	for b.Loop() {
		dialect{}.SetsMode("SELECT id, summary FROM chats JOIN users ON users.id = chats.user_id WHERE chats.id = ? ORDER BY v LIMIT 10")
	}
}
