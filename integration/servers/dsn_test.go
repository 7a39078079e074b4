package servers

import "testing"

func TestDSN(t *testing.T) {
	for _, test := range []struct {
		dialect        dialect
		base, database string
		params         []string
		want           string
	}{
		{postgresDialect, "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable", "d", nil,
			"postgres://postgres@127.0.0.1:5432/d?sslmode=disable"},
		{postgresDialect, "postgres://u:p%2Fw@h", "", nil, "postgres://u:p%2Fw@h/postgres"},
		{postgresDialect, "postgresql://u@h/mine?sslmode=disable", "", []string{"sslmode=require", "options=-c a=b"},
			"postgresql://u@h/mine?options=-c%20a%3Db&sslmode=require"},
		{mysqlDialect, "root@tcp(127.0.0.1:3306)/", "d", nil, "root@tcp(127.0.0.1:3306)/d"},
		{mysqlDialect, "u:p@/w?x@tcp(h:1)/mine?parseTime=true", "", []string{"interpolateParams=true", "time_zone='+00:00'"},
			"u:p@/w?x@tcp(h:1)/mine?parseTime=true&interpolateParams=true&time_zone=%27%2B00%3A00%27"},
		{mysqlDialect, "root@tcp(h:1)/?interpolateParams=true", "d", []string{"interpolateParams=false", "clientFoundRows=true"},
			"root@tcp(h:1)/d?interpolateParams=true&interpolateParams=false&clientFoundRows=true"},
	} {
		got, err := test.dialect.join(test.base, test.database, test.params)
		if err != nil || got != test.want {
			t.Errorf("%s and %q, %q:\n got %s, %v\nwant %s", test.base, test.database, test.params, got, err, test.want)
		}
	}
}
