package integration

import (
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/mattn/go-sqlite3"
	_ "modernc.org/sqlite"

	_ "github.com/fencedsql/fencedsql/dialects/sqlite"
)

var sqliteTexts = &dialectTexts{
	dialect:   "sqlite",
	marker:    func(int) string { return "?" },
	returning: true,
	conflict: func(err error) bool {
		return strings.Contains(err.Error(), "database is locked")
	},
	unfit: map[string]string{
		"04 nullable": "CREATE TABLE c (id INTEGER PRIMARY KEY, v TEXT, fence TEXT)",
		"INTEGER":     "CREATE TABLE c (id INTEGER PRIMARY KEY, v TEXT, fence INTEGER NOT NULL DEFAULT 0)",
		"NUMERIC":     "CREATE TABLE c (id INTEGER PRIMARY KEY, v TEXT, fence NUMERIC NOT NULL DEFAULT 0)",
		"CHAR(20)":    "CREATE TABLE c (id INTEGER PRIMARY KEY, v TEXT, fence CHAR(20) NOT NULL DEFAULT '')",
		"missing":     "CREATE TABLE c (id INTEGER PRIMARY KEY, v TEXT)",
		"no key":      "CREATE TABLE c (id INTEGER, v TEXT, fence TEXT NOT NULL DEFAULT '')",
		"partial key": "CREATE TABLE c (id INTEGER, v TEXT, fence TEXT NOT NULL DEFAULT '');\nCREATE UNIQUE INDEX c_part ON c (id) WHERE v IS NULL",
		"wider key":   "CREATE TABLE c (id INTEGER, v TEXT, fence TEXT NOT NULL DEFAULT '', UNIQUE (id, v))",
		"collation":   "CREATE TABLE c (id TEXT COLLATE NOCASE, v TEXT, fence TEXT NOT NULL DEFAULT '');\nCREATE UNIQUE INDEX c_bin ON c (id COLLATE BINARY)",
	},
	setup: append([]string{
		`CREATE TABLE j (id INTEGER PRIMARY KEY, v TEXT, n INTEGER NOT NULL DEFAULT 0, fence TEXT NOT NULL DEFAULT '` + text(0) + `')`,
		`CREATE TABLE pair (a INTEGER NOT NULL, b INTEGER NOT NULL, v TEXT, pair_fence TEXT NOT NULL DEFAULT '` + text(0) + `', PRIMARY KEY (a, b))`,
		`CREATE TABLE nokey (id INTEGER, v TEXT, fence TEXT NOT NULL DEFAULT '` + text(0) + `')`,
		`CREATE TABLE onlyonce (id INTEGER PRIMARY KEY, v TEXT, fence TEXT NOT NULL DEFAULT '` + text(0) + `')`,
		`CREATE TABLE counted (id INTEGER PRIMARY KEY, v TEXT, fence INTEGER NOT NULL DEFAULT 0)`,
		`CREATE TABLE src (id INTEGER PRIMARY KEY, v TEXT, n INTEGER, fence TEXT)`,
		`CREATE TABLE plain (id INTEGER PRIMARY KEY, v TEXT)`,
		`CREATE TABLE violations (id INTEGER PRIMARY KEY, what TEXT)`,
		`CREATE TABLE witness (fence TEXT)`,
		`INSERT INTO witness VALUES (NULL)`,
	}, sqliteWitness()...),
}

// sqliteWitness are triggers that record each row written without the fence
// of the lease that the witness was told of, or over a newer one. A statement
// that is undone takes its records with it.
func sqliteWitness() (out []string) {
	for _, w := range []struct{ table, fence, below string }{
		{"j", "%s.fence", "<="}, {"pair", "%s.pair_fence", "<="}, {"nokey", "%s.fence", "<="},
		{"onlyonce", "%s.fence", "<"}, {"counted", "printf('%%040d', %s.fence)", "<="},
	} {
		for _, op := range []string{"INSERT", "UPDATE", "DELETE"} {
			out = append(out, `CREATE TRIGGER witness_`+w.table+`_`+op+` AFTER `+op+` ON `+w.table+
				` WHEN (SELECT `+breach(op, w.fence, w.below)+` FROM witness)`+
				` BEGIN INSERT INTO violations (what) VALUES ('`+op+` `+w.table+`'); END`)
		}
	}
	return out
}

// sqliteFile is a new database file. Its journal is in memory: the suite
// crashes programs, not machines.
func sqliteFile(pragmas string) func(t testing.TB) string {
	return func(t testing.TB) string {
		return "file:" + filepath.Join(t.TempDir(), "suite.db") + pragmas
	}
}

var sqliteEngines = []*engine{
	{
		name: "sqlite3", driver: "sqlite3", dialectTexts: sqliteTexts,
		create: sqliteFile("?_journal_mode=WAL&_synchronous=OFF&_busy_timeout=10000"),
	},
	{
		name: "modernc", driver: "sqlite", dialectTexts: sqliteTexts,
		create: sqliteFile("?_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)&_pragma=busy_timeout(10000)"),
	},
}
