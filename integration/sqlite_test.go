package integration

import (
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/mattn/go-sqlite3"
	_ "modernc.org/sqlite"

	_ "github.com/fencedsql/fencedsql/dialects/sqlite"
	"github.com/fencedsql/fencedsql/integration/witness"
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
	setup: witness.SQLite,
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
