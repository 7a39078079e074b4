package integration

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	_ "github.com/fencedsql/fencedsql/dialects/mysql"
	"github.com/fencedsql/fencedsql/integration/servers"
)

var mysqlTexts = &dialectTexts{
	dialect: "mysql",
	marker:  func(int) string { return "?" },
	blocked: "SELECT count(*) FROM information_schema.innodb_trx AS t JOIN information_schema.processlist AS p ON p.id = t.trx_mysql_thread_id WHERE t.trx_state = 'LOCK WAIT' AND p.db = DATABASE()",
	conflict: func(err error) bool {
		var e *mysql.MySQLError
		return errors.As(err, &e) && (e.Number == 1213 || e.Number == 1205)
	},
	setup: append([]string{
		`CREATE TABLE j (id INT PRIMARY KEY, v VARCHAR(200), n INT NOT NULL DEFAULT 0, fence CHAR(40) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '` + text(0) + `')`,
		`CREATE TABLE pair (a INT, b INT, v VARCHAR(200), pair_fence VARCHAR(40) NOT NULL DEFAULT '` + text(0) + `', PRIMARY KEY (a, b))`,
		`CREATE TABLE nokey (id INT, v VARCHAR(200), fence VARCHAR(60) NOT NULL DEFAULT '` + text(0) + `')`,
		`CREATE TABLE onlyonce (id INT PRIMARY KEY, v VARCHAR(200), fence CHAR(40) NOT NULL DEFAULT '` + text(0) + `')`,
		`CREATE TABLE counted (id INT PRIMARY KEY, v VARCHAR(200), fence BIGINT NOT NULL DEFAULT 0)`,
		`CREATE TABLE src (id INT PRIMARY KEY, v VARCHAR(200), n INT, fence CHAR(40))`,
		`CREATE TABLE plain (id INT PRIMARY KEY, v VARCHAR(200))`,
		`CREATE TABLE violations (id INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(200))`,
		`CREATE TABLE witness (fence CHAR(40))`,
		`INSERT INTO witness VALUES (NULL)`,
	}, mysqlWitness()...),
	unfit: map[string]string{
		"04 nullable": "CREATE TABLE c (id INT PRIMARY KEY, v VARCHAR(200), fence CHAR(40))",
		"INT":         "CREATE TABLE c (id INT PRIMARY KEY, v VARCHAR(200), fence INT NOT NULL DEFAULT 0)",
		"DECIMAL":     "CREATE TABLE c (id INT PRIMARY KEY, v VARCHAR(200), fence DECIMAL(40,0) NOT NULL DEFAULT 0)",
		"CHAR(20)":    "CREATE TABLE c (id INT PRIMARY KEY, v VARCHAR(200), fence CHAR(20) NOT NULL DEFAULT '')",
		"missing":     "CREATE TABLE c (id INT PRIMARY KEY, v VARCHAR(200))",
		"no key":      "CREATE TABLE c (id INT, v VARCHAR(200), fence CHAR(40) NOT NULL DEFAULT '')",
		"prefix key":  "CREATE TABLE c (id VARCHAR(100), v VARCHAR(200), fence CHAR(40) NOT NULL DEFAULT '', UNIQUE (id(10)))",
		"wider key":   "CREATE TABLE c (id INT, v VARCHAR(200), fence CHAR(40) NOT NULL DEFAULT '', UNIQUE (id, v))",
		"MyISAM":      "CREATE TABLE c (id INT PRIMARY KEY, v VARCHAR(200), fence CHAR(40) NOT NULL DEFAULT '') ENGINE=MyISAM",
	},
}

// mysqlWitness is sqliteWitness in MySQL's words.
func mysqlWitness() (out []string) {
	for _, w := range []struct{ table, fence, below string }{
		{"j", "%s.fence", "<="}, {"pair", "%s.pair_fence", "<="}, {"nokey", "%s.fence", "<="},
		{"onlyonce", "%s.fence", "<"}, {"counted", "LPAD(%s.fence, 40, '0')", "<="},
	} {
		for _, op := range []string{"INSERT", "UPDATE", "DELETE"} {
			out = append(out, `CREATE TRIGGER witness_`+w.table+`_`+strings.ToLower(op)+` AFTER `+op+` ON `+w.table+
				` FOR EACH ROW INSERT INTO violations (what) SELECT '`+op+` `+w.table+`' FROM witness WHERE `+breach(op, w.fence, w.below))
		}
	}
	return out
}

func mariadb(t testing.TB) (*servers.Server, error) { return servers.MariaDB(t.Context()) }

// mariadbEngines are the driver's four ways to send and to count.
func mariadbEngines() (out []*engine) {
	for _, interpolate := range []string{"false", "true"} {
		for _, found := range []string{"false", "true"} {
			out = append(out, &engine{name: "mariadb-interpolate=" + interpolate + "-found=" + found, driver: "mysql", dialectTexts: mysqlTexts,
				create: onServer(mariadb, "interpolateParams="+interpolate, "clientFoundRows="+found)})
		}
	}
	return out
}
