package servers

import "strings"

// Kind is a product that tests run against.
type Kind string

// The kinds. Each names the variable that gives one: see the package comment.
const (
	KindPostgres   Kind = "PostgreSQL"
	KindPostgres18 Kind = "PostgreSQL 18"
	KindMySQL      Kind = "MySQL"
	KindMariaDB    Kind = "MariaDB"
	KindTiDB       Kind = "TiDB"
	KindPgBouncer  Kind = "PgBouncer"
)

// engine is what the package knows of a kind.
type engine struct {
	product string // as in Server.Name, before the version
	env     string // the variable that gives such a server
	example string // a DSN for messages
	service string // in docker-compose.yml; "" if there is none
	dsn     dialect
	version string // the query for Server.Version
	// fits reports whether a server that calls itself version is of this kind.
	fits func(version string) bool
	// find says how to start one; nil where only the environment can give it.
	find func() (*launcher, error)
}

var engines = map[Kind]*engine{
	KindPostgres: {
		product: "PostgreSQL",
		env:     "FENCEDSQL_POSTGRES_DSN",
		example: "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable",
		service: "postgres",
		dsn:     postgresDialect,
		version: "SHOW server_version",
		fits:    func(string) bool { return true },
		find:    findPostgres,
	},
	KindPostgres18: {
		product: "PostgreSQL",
		env:     "FENCEDSQL_POSTGRES18_DSN",
		example: "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable",
		service: "postgres",
		dsn:     postgresDialect,
		version: "SHOW server_version",
		fits:    func(v string) bool { return strings.HasPrefix(v, "18") },
		find:    findPostgres18,
	},
	KindMySQL: {
		product: "MySQL",
		env:     "FENCEDSQL_MYSQL_DSN",
		example: "root:password@tcp(127.0.0.1:3306)/",
		service: "mysql",
		dsn:     mysqlDialect,
		version: "SELECT version()",
		fits: func(v string) bool {
			return !strings.Contains(v, "MariaDB") && !strings.Contains(v, "TiDB")
		},
	},
	KindMariaDB: {
		product: "MariaDB",
		env:     "FENCEDSQL_MARIADB_DSN",
		example: "root:password@tcp(127.0.0.1:3306)/",
		service: "mariadb",
		dsn:     mysqlDialect,
		version: "SELECT version()",
		fits:    func(v string) bool { return strings.Contains(v, "MariaDB") },
		find:    findMariaDB,
	},
	KindTiDB: {
		product: "TiDB",
		env:     "FENCEDSQL_TIDB_DSN",
		example: "root@tcp(127.0.0.1:4000)/",
		service: "tidb",
		dsn:     mysqlDialect,
		version: "SELECT version()",
		fits:    func(v string) bool { return strings.Contains(v, "TiDB") },
	},
	KindPgBouncer: {
		product: "PgBouncer",
		env:     "FENCEDSQL_PGBOUNCER_DSN",
		example: "postgres://postgres@127.0.0.1:6432/postgres?sslmode=disable",
		dsn:     postgresDialect,
		fits:    func(string) bool { return true },
		// Started by PgBouncer, which knows the server behind it.
	},
}

// name is the product with its number, from what the server says of itself:
// "15.18 (Debian 15.18-0+deb12u1)", "10.11.19-MariaDB-0+deb12u1",
// "8.0.11-TiDB-v8.5.6".
func (e *engine) name(version string) string {
	if _, after, ok := strings.Cut(version, "TiDB-v"); ok {
		version = after
	}
	if i := strings.IndexAny(version, " -"); i >= 0 {
		version = version[:i]
	}
	return strings.TrimSpace(e.product + " " + version)
}
