// Package servers gives tests real database servers: those that the
// environment names, and else private ones, started on free loopback ports
// with data directories of their own and gone when the test binary ends.
//
//	func TestMain(m *testing.M) { os.Exit(servers.Run(m)) }
//
//	func TestWrite(t *testing.T) {
//		s, err := servers.Postgres(t.Context())
//		if err != nil {
//			t.Fatal(err) // says what to install, or which variable to set
//		}
//		db, err := sql.Open("pgx", s.DSN(s.Database(t), "default_query_exec_mode=exec"))
//		…
//	}
//
// A server is started when it is first asked for and shared by the whole test
// binary; a test takes a database of its own from [Server.Database]. A test
// that kills or restarts a server asks [Start] for one that nobody shares.
//
// # Servers from the environment
//
// A variable that is set is the server: nothing is started in its place, and a
// server that does not answer or is another product is an error.
// docker-compose.yml in the repository's root starts them all.
//
//	FENCEDSQL_POSTGRES_DSN    postgres://user:password@host:port/database?sslmode=disable (for pgx and lib/pq alike)
//	FENCEDSQL_POSTGRES18_DSN  the same, a PostgreSQL 18
//	FENCEDSQL_PGBOUNCER_DSN   the same, a PgBouncer in transaction pooling before the first
//	FENCEDSQL_MYSQL_DSN       user:password@tcp(host:port)/ (go-sql-driver), a MySQL 8
//	FENCEDSQL_MARIADB_DSN     the same, a MariaDB
//	FENCEDSQL_TIDB_DSN        the same, a TiDB
//
// The user needs the right to create databases; PostgreSQL's maintenance
// database is the one in the DSN, or postgres.
//
// # Private servers
//
// They run on Linux only, from Debian's packages and the npm package that
// .ci/install fetches: PostgreSQL from $PGBIN, the newest
// /usr/lib/postgresql/*/bin or PATH; PostgreSQL 18 from the cache folder
// ($FENCEDSQL_CACHE, else /var/cache/fencedsql for root, else fencedsql in
// $XDG_CACHE_HOME or ~/.cache). MySQL and TiDB are not started here:
// [ErrNotGiven].
//
// A write that the server confirmed survives kill -9 of the server, not a
// power cut: nothing is synced to disk.
package servers
