package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"

	"github.com/fencedsql/fencedsql/dialects"
	"github.com/fencedsql/fencedsql/lease"
)

// TestCheck answers as MariaDB 10.11 and MySQL 8 do; the integration tests ask
// the servers themselves.
func TestCheck(t *testing.T) {
	type row = []driver.Value
	innodb := []row{{"BASE TABLE", "InnoDB", "YES"}}
	id := row{"id", "int", "NO", nil, "auto_increment", nil}
	fence := row{"fence", "char", "NO", int64(40), "", ""}
	with := func(dataType string, length driver.Value, nullable, extra, generation string) []row {
		return []row{id, {[]byte("Fence"), []byte(dataType), []byte(nullable), length, []byte(extra), []byte(generation)}}
	}
	primary := []row{{"PRIMARY", "id", nil, int64(0)}}
	for _, c := range []struct {
		name                  string
		tables, columns, keys []row
		key                   string
		enc                   lease.Encoding
		columnsWant           string // of info
		reason, ddl           string // of the problem, in parts
	}{
		{name: "fits", tables: innodb, columns: []row{id, fence}, keys: primary, key: "id", columnsWant: "id fence"},
		{name: "text protocol", tables: innodb, columns: with("varchar", []byte("40"), "NO", "DEFAULT_GENERATED", ""),
			keys: []row{{[]byte("PRIMARY"), []byte("ID"), nil, []byte("0")}}, key: "id", columnsWant: "id Fence"},
		{name: "no key", tables: innodb, columns: []row{id, fence}, columnsWant: "id fence"},
		{name: "invisible", tables: innodb, columns: []row{{"a", "int", "YES", nil, "INVISIBLE", ""}, id, {"g", "int", "YES", nil, "STORED GENERATED", "1"}, fence},
			columnsWant: "id g fence"},
		{name: "binary(40)", tables: innodb, columns: with("binary", int64(40), "NO", "", ""), columnsWant: "id Fence"},
		{name: "tinytext", tables: innodb, columns: with("tinytext", int64(255), "NO", "", ""), columnsWant: "id Fence"},
		{name: "bigint", tables: innodb, columns: with("bigint", nil, "NO", "", ""), enc: lease.Int64, columnsWant: "id Fence"},
		{name: "versioned", tables: []row{{"SYSTEM VERSIONED", "InnoDB", "YES"}}, columns: []row{id, fence, {"re", "timestamp", "NO", nil, "STORED GENERATED", "ROW END"}},
			keys: append(primary, row{"PRIMARY", "re", nil, int64(0)}), key: "id", columnsWant: "id fence re"},

		{name: "no table", reason: "no such table", ddl: "CREATE TABLE j (id … NOT NULL, …, fence CHAR(40)", key: "id"},
		{name: "view", tables: []row{{"VIEW", nil, nil}}, reason: "it is a view"},
		{name: "MyISAM", tables: []row{{"BASE TABLE", "MyISAM", "NO"}}, columns: []row{id, fence}, reason: "engine MyISAM has no transactions", ddl: "ALTER TABLE j ENGINE = InnoDB"},
		{name: "no column", tables: innodb, columns: []row{id}, reason: "no column fence",
			ddl: "ALTER TABLE j ADD COLUMN fence CHAR(40) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '" + strings.Repeat("0", 40) + "'"},
		{name: "nullable", tables: innodb, columns: with("char", int64(40), "YES", "", ""), reason: "may be NULL", ddl: "UPDATE j SET fence = 0 WHERE fence IS NULL;\nALTER TABLE j MODIFY COLUMN fence CHAR(40)"},
		{name: "char(20)", tables: innodb, columns: with("char", int64(20), "NO", "", ""), reason: "type char(20); a fence takes 40", ddl: "LPAD(fence, 40, '0')"},
		{name: "binary(41)", tables: innodb, columns: with("binary", int64(41), "NO", "", ""), reason: "type binary(41)", ddl: "MODIFY COLUMN fence CHAR(40)"},
		{name: "int", tables: innodb, columns: with("int", nil, "NO", "", ""), reason: "type int", ddl: "MODIFY COLUMN fence CHAR(40)"},
		{name: "decimal", tables: innodb, columns: with("decimal", nil, "YES", "", ""), reason: "type decimal", ddl: "IS NULL;\nALTER TABLE"},
		{name: "json", tables: innodb, columns: with("json", nil, "NO", "", ""), reason: "type json", ddl: "MODIFY COLUMN fence CHAR(40)"},
		{name: "text as int64", tables: innodb, columns: []row{id, fence}, enc: lease.Int64, reason: "need BIGINT", ddl: "ALTER TABLE j MODIFY COLUMN fence BIGINT NOT NULL DEFAULT 0"},
		{name: "int as int64", tables: innodb, columns: with("int", nil, "NO", "", ""), enc: lease.Int64, reason: "type int", ddl: "BIGINT"},
		{name: "generated", tables: innodb, columns: with("char", int64(40), "NO", "STORED GENERATED", "concat(`id`)"), reason: "is generated", ddl: "DROP COLUMN fence, ADD COLUMN fence"},
		{name: "not unique", tables: innodb, columns: []row{id, fence}, keys: []row{{"a", "id", nil, int64(1)}}, key: "id", reason: "key (id)", ddl: "ALTER TABLE j ADD UNIQUE INDEX (id)"},
		{name: "wider index", tables: innodb, columns: []row{id, fence}, keys: []row{{"a", "id", nil, int64(0)}, {"a", "v", nil, int64(0)}}, key: "id", reason: "key (id)", ddl: "UNIQUE"},
		{name: "narrower index", tables: innodb, columns: []row{id, fence}, keys: primary, key: "id v", columnsWant: "id fence"},
		{name: "prefix", tables: innodb, columns: []row{id, fence}, keys: []row{{"a", "id", int64(10), int64(0)}}, key: "id", reason: "key (id)", ddl: "UNIQUE"},
		{name: "expression", tables: innodb, columns: []row{id, fence}, keys: []row{{"a", nil, nil, int64(0)}}, key: "id", reason: "key (id)", ddl: "UNIQUE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := answers{"information_schema.TABLES": c.tables, "information_schema.COLUMNS": c.columns, "information_schema.STATISTICS": c.keys}
			info, problem, err := dialect{}.Check(context.Background(), q, dialects.CheckedTable{
				Name: dialects.Name{Table: "j"}, Fence: "fence", Key: strings.Fields(c.key), Encoding: c.enc,
			})
			switch {
			case err != nil:
				t.Error(err)
			case c.reason == "":
				if problem != nil || strings.Join(info.Columns, " ") != c.columnsWant {
					t.Errorf("%v, %v", info, problem)
				}
			case problem == nil || !strings.Contains(problem.Reason, c.reason) || !strings.Contains(problem.DDL, c.ddl) || c.ddl == "" && problem.DDL != "":
				t.Errorf("%v, %v", info, problem)
			}
		})
	}
	if _, _, err := (dialect{}).Check(context.Background(), answers{}, dialects.CheckedTable{}); err == nil {
		t.Error("an error of the database is kept")
	}
}

func TestKeyTypes(t *testing.T) {
	for want, dataTypes := range map[dialects.KeyType]string{
		dialects.IntegerKey: "tinyint smallint mediumint int bigint BIGINT decimal bit enum",
		dialects.TextKey: "char varchar tinytext text mediumtext longtext binary varbinary tinyblob blob mediumblob longblob " +
			"uuid inet4 inet6 date datetime",
		dialects.NoKey: "timestamp time year float double set json point geometry multipoint vector new_type",
	} {
		for _, dataType := range strings.Fields(dataTypes) {
			columns := [][]string{{"v", "int"}, {"ID", dataType}}
			if got := keyTypes([]string{"id"}, columns); got[0] != want {
				t.Errorf("%s: %v, want %v", dataType, got[0], want)
			}
		}
	}
}

// asked is a Querier that notes what it is asked.
type asked struct {
	text string
	args []driver.Value
}

func (a *asked) Query(_ context.Context, text string, args ...driver.Value) ([][]driver.Value, error) {
	a.text, a.args = text, args
	return nil, errors.New("no")
}

func TestCheckAsksForSchema(t *testing.T) {
	var q asked
	name := dialects.Name{Schema: "app", Table: "j"}
	_, _, _ = dialect{}.Check(context.Background(), &q, dialects.CheckedTable{Name: name})
	if !strings.Contains(q.text, "s.TABLE_SCHEMA = ? AND") || len(q.args) != 2 || q.args[0] != "app" || q.args[1] != "j" {
		t.Errorf("%+v", q)
	}
	name.Schema = ""
	_, _, _ = dialect{}.Check(context.Background(), &q, dialects.CheckedTable{Name: name})
	if !strings.Contains(q.text, "s.TABLE_SCHEMA = DATABASE() AND") || len(q.args) != 1 {
		t.Errorf("%+v", q)
	}
}
