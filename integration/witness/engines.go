package witness

import (
	"fmt"
	"strings"
)

// SQLite, Postgres and MySQL make the tables, without rows, and the witness.
var (
	SQLite = append([]string{
		`CREATE TABLE j (id INTEGER PRIMARY KEY, v TEXT, n INTEGER NOT NULL DEFAULT 0, fence TEXT NOT NULL DEFAULT '` + Text(0) + `')`,
		`CREATE TABLE pair (a INTEGER NOT NULL, b INTEGER NOT NULL, v TEXT, pair_fence TEXT NOT NULL DEFAULT '` + Text(0) + `', PRIMARY KEY (a, b))`,
		`CREATE TABLE nokey (id INTEGER, v TEXT, fence TEXT NOT NULL DEFAULT '` + Text(0) + `')`,
		`CREATE TABLE onlyonce (id INTEGER PRIMARY KEY, v TEXT, fence TEXT NOT NULL DEFAULT '` + Text(0) + `')`,
		`CREATE TABLE counted (id INTEGER PRIMARY KEY, v TEXT, fence INTEGER NOT NULL DEFAULT 0)`,
		`CREATE TABLE src (id INTEGER PRIMARY KEY, v TEXT, n INTEGER, fence TEXT)`,
		`CREATE TABLE plain (id INTEGER PRIMARY KEY, v TEXT)`,
		`CREATE TABLE violations (id INTEGER PRIMARY KEY, what TEXT)`,
		`CREATE TABLE witness (fence TEXT)`,
		`INSERT INTO witness VALUES (NULL)`,
	}, triggers("printf('%%040d', %s.fence)", func(name, op, table, breach, record string) []string {
		return []string{`CREATE TRIGGER ` + name + ` AFTER ` + op + ` ON ` + table + ` WHEN (SELECT ` + breach + ` FROM witness) BEGIN ` + record + ` VALUES ('` + op + ` ` + table + `'); END`}
	})...)

	Postgres = append([]string{
		`CREATE TABLE j (id integer PRIMARY KEY, v text, n integer NOT NULL DEFAULT 0, fence varchar(40) NOT NULL DEFAULT '` + Text(0) + `')`,
		`CREATE TABLE pair (a integer, b integer, v text, pair_fence text NOT NULL DEFAULT '` + Text(0) + `', PRIMARY KEY (a, b))`,
		`CREATE TABLE nokey (id integer, v text, fence char(40) NOT NULL DEFAULT '` + Text(0) + `')`,
		`CREATE TABLE onlyonce (id integer PRIMARY KEY, v text, fence text NOT NULL DEFAULT '` + Text(0) + `')`,
		`CREATE TABLE counted (id integer PRIMARY KEY, v text, fence bigint NOT NULL DEFAULT 0)`,
		`CREATE TABLE src (id integer PRIMARY KEY, v text, n integer, fence text)`,
		`CREATE TABLE plain (id integer PRIMARY KEY, v text)`,
		`CREATE TABLE violations (id serial PRIMARY KEY, what text)`,
		`CREATE TABLE witness (fence text)`,
		`INSERT INTO witness VALUES (NULL)`,
	}, triggers("lpad(%s.fence::text, 40, '0')", func(name, op, table, breach, record string) []string {
		return []string{
			`CREATE FUNCTION ` + name + `() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				IF (SELECT ` + breach + ` FROM witness) THEN ` + record + ` VALUES ('` + op + ` ` + table + `'); END IF;
				RETURN NULL; END $$`,
			`CREATE TRIGGER ` + name + ` AFTER ` + op + ` ON ` + table + ` FOR EACH ROW EXECUTE FUNCTION ` + name + `()`,
		}
	})...)

	MySQL = append([]string{
		`CREATE TABLE j (id INT PRIMARY KEY, v VARCHAR(200), n INT NOT NULL DEFAULT 0, fence CHAR(40) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '` + Text(0) + `')`,
		`CREATE TABLE pair (a INT, b INT, v VARCHAR(200), pair_fence VARCHAR(40) NOT NULL DEFAULT '` + Text(0) + `', PRIMARY KEY (a, b))`,
		`CREATE TABLE nokey (id INT, v VARCHAR(200), fence VARCHAR(60) NOT NULL DEFAULT '` + Text(0) + `')`,
		`CREATE TABLE onlyonce (id INT PRIMARY KEY, v VARCHAR(200), fence CHAR(40) NOT NULL DEFAULT '` + Text(0) + `')`,
		`CREATE TABLE counted (id INT PRIMARY KEY, v VARCHAR(200), fence BIGINT NOT NULL DEFAULT 0)`,
		`CREATE TABLE src (id INT PRIMARY KEY, v VARCHAR(200), n INT, fence CHAR(40))`,
		`CREATE TABLE plain (id INT PRIMARY KEY, v VARCHAR(200))`,
		`CREATE TABLE violations (id INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(200))`,
		`CREATE TABLE witness (fence CHAR(40))`,
		`INSERT INTO witness VALUES (NULL)`,
	}, triggers("LPAD(%s.fence, 40, '0')", func(name, op, table, breach, record string) []string {
		return []string{`CREATE TRIGGER ` + name + ` AFTER ` + op + ` ON ` + table + ` FOR EACH ROW ` + record + ` SELECT '` + op + ` ` + table + `' FROM witness WHERE ` + breach}
	})...)
)

// triggers gives each fenced table a trigger for each kind of write; counted
// is how the engine shows an integer fence as the witness's text, of the row %s.
func triggers(counted string, create func(name, op, table, breach, record string) []string) (out []string) {
	for _, w := range []struct{ table, fence, below string }{
		{"j", "%s.fence", "<="}, {"pair", "%s.pair_fence", "<="}, {"nokey", "%s.fence", "<="},
		{"onlyonce", "%s.fence", "<"}, {"counted", counted, "<="},
	} {
		for _, op := range []string{"INSERT", "UPDATE", "DELETE"} {
			out = append(out, create("witness_"+w.table+"_"+strings.ToLower(op), op, w.table, breach(op, w.fence, w.below), "INSERT INTO violations (what)")...)
		}
	}
	return out
}

// breach is the condition, over the table witness, under which a write of that
// kind is recorded: a NULL there is no lease.
func breach(op, fence, below string) string {
	now, was := fmt.Sprintf(fence, "NEW"), fmt.Sprintf(fence, "OLD")
	stored := `witness.fence IS NULL OR ` + now + ` <> witness.fence`
	passed := `witness.fence IS NULL OR NOT (` + was + ` ` + below + ` witness.fence)`
	switch op {
	case "INSERT":
		return stored
	case "DELETE":
		return passed
	}
	return stored + ` OR ` + passed
}
