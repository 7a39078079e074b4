package integration

import (
	"errors"
	"testing"

	"github.com/go-sql-driver/mysql"

	_ "github.com/fencedsql/fencedsql/dialects/mysql"
	"github.com/fencedsql/fencedsql/integration/servers"
	"github.com/fencedsql/fencedsql/integration/witness"
)

var mysqlTexts = &dialectTexts{
	dialect: "mysql",
	marker:  func(int) string { return "?" },
	blocked: "SELECT count(*) FROM information_schema.innodb_trx AS t JOIN information_schema.processlist AS p ON p.id = t.trx_mysql_thread_id WHERE t.trx_state = 'LOCK WAIT' AND p.db = DATABASE()",
	conflict: func(err error) bool {
		var e *mysql.MySQLError
		return errors.As(err, &e) && (e.Number == 1213 || e.Number == 1205)
	},
	setup: witness.MySQL,
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
