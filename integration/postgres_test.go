package integration

import (
	"errors"
	"fmt"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"

	_ "github.com/fencedsql/fencedsql/dialects/postgres"
	"github.com/fencedsql/fencedsql/integration/servers"
	"github.com/fencedsql/fencedsql/integration/witness"
)

var postgresTexts = &dialectTexts{
	dialect:   "postgres",
	marker:    func(n int) string { return fmt.Sprintf("$%d", n) },
	returning: true,
	blocked:   "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
	conflict: func(err error) bool {
		var e interface{ SQLState() string }
		return errors.As(err, &e) && (e.SQLState() == "40001" || e.SQLState() == "40P01")
	},
	snapshot: true,
	setup:    witness.Postgres,
	unfit: map[string]string{
		"04 nullable":  "CREATE TABLE c (id integer PRIMARY KEY, v text, fence text)",
		"integer":      "CREATE TABLE c (id integer PRIMARY KEY, v text, fence integer NOT NULL DEFAULT 0)",
		"numeric":      "CREATE TABLE c (id integer PRIMARY KEY, v text, fence numeric NOT NULL DEFAULT 0)",
		"char(20)":     "CREATE TABLE c (id integer PRIMARY KEY, v text, fence char(20) NOT NULL DEFAULT '')",
		"varchar(39)":  "CREATE TABLE c (id integer PRIMARY KEY, v text, fence varchar(39) NOT NULL DEFAULT '')",
		"missing":      "CREATE TABLE c (id integer PRIMARY KEY, v text)",
		"no key":       "CREATE TABLE c (id integer, v text, fence text NOT NULL DEFAULT '')",
		"partial key":  "CREATE TABLE c (id integer, v text, fence text NOT NULL DEFAULT '');\nCREATE UNIQUE INDEX ON c (id) WHERE v IS NULL",
		"wider key":    "CREATE TABLE c (id integer, v text, fence text NOT NULL DEFAULT '', UNIQUE (id, v))",
		"deferred key": "CREATE TABLE c (id integer UNIQUE DEFERRABLE INITIALLY DEFERRED, v text, fence text NOT NULL DEFAULT '')",
	},
}

// onServer makes a database on one of the servers, reached with these
// parameters in its data source name.
func onServer(get func(t testing.TB) (*servers.Server, error), params ...string) func(testing.TB) string {
	return func(t testing.TB) string {
		t.Helper()
		s, err := get(t)
		if err != nil {
			t.Fatal(err)
		}
		return s.DSN(s.Database(t), params...)
	}
}

func postgres15(t testing.TB) (*servers.Server, error) { return servers.Postgres(t.Context()) }
func postgres18(t testing.TB) (*servers.Server, error) { return servers.Postgres18(t.Context()) }

func pgbouncer(t testing.TB) (*servers.Server, error) {
	s, err := servers.Postgres(t.Context())
	if err != nil {
		return nil, err
	}
	return servers.PgBouncer(t.Context(), s)
}

// postgresEngines are pgx in its five ways to send a statement, two of them
// through a PgBouncer that pools transactions, lib/pq, and a newer server.
func postgresEngines() (out []*engine) {
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		out = append(out, &engine{name: "pgx-" + mode, driver: "pgx", dialectTexts: postgresTexts,
			create: onServer(postgres15, "default_query_exec_mode="+mode)})
	}
	for _, mode := range []string{"exec", "simple_protocol"} {
		out = append(out, &engine{name: "pgbouncer-" + mode, driver: "pgx", dialectTexts: postgresTexts,
			create: onServer(pgbouncer, "default_query_exec_mode="+mode)})
	}
	return append(out,
		&engine{name: "pq", driver: "postgres", dialectTexts: postgresTexts, create: onServer(postgres15)},
		&engine{name: "postgres18", driver: "pgx", dialectTexts: postgresTexts, create: onServer(postgres18)},
	)
}
