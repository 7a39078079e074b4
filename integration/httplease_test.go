package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	fencedsql "github.com/fencedsql/fencedsql/driver"
	"github.com/fencedsql/fencedsql/lease"
	"github.com/fencedsql/fencedsql/lease/httplease"
)

// answer gives a service's answer to a write: its status tells what became of it.
func answer(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, fencedsql.ErrFenced):
		http.Error(w, err.Error(), http.StatusConflict)
	case errors.Is(err, fencedsql.ErrNoLease):
		http.Error(w, err.Error(), http.StatusPreconditionRequired)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// TestFenceOverHTTP: the tables of a service refuse a stale caller, at the first service and at one behind it.
func TestFenceOverHTTP(t *testing.T) {
	for _, e := range only(sqliteEngines) {
		t.Run(e.name, func(t *testing.T) {
			v := e.open(t)
			client := &http.Client{Transport: &httplease.Transport{}}
			defer client.CloseIdleConnections()
			inner := httptest.NewServer(httplease.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, err := v.db.ExecContext(r.Context(), v.mark("UPDATE j SET v = ? WHERE id = ?"), r.URL.Query().Get("v"), r.URL.Query().Get("id"))
				answer(w, err)
			})))
			defer inner.Close()
			outer := httptest.NewServer(httplease.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				req, err := http.NewRequestWithContext(r.Context(), "POST", inner.URL+"?"+r.URL.RawQuery, nil)
				if err != nil {
					t.Error(err)
					return
				}
				resp, err := client.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				w.WriteHeader(resp.StatusCode)
				io.Copy(w, resp.Body)
			})))
			defer outer.Close()

			for name, service := range map[string]*httptest.Server{"one service": inner, "two services": outer} {
				t.Run(name, func(t *testing.T) {
					v := v.with(t)
					write := func(client *http.Client, ctx context.Context, h http.Header, id int, value string, want int) {
						t.Helper()
						req, err := http.NewRequestWithContext(ctx, "POST", fmt.Sprintf("%s?id=%d&v=%s", service.URL, id, value), nil)
						if err != nil {
							t.Fatal(err)
						}
						req.Header = h
						resp, err := client.Do(req)
						if err != nil {
							t.Fatal(err)
						}
						defer resp.Body.Close()
						text, err := io.ReadAll(resp.Body)
						if err != nil || resp.StatusCode != want {
							t.Errorf("%s: %s %s, %v; want %d", value, resp.Status, text, err, want)
						}
					}
					none := http.Header{}

					paused := v.under(6)
					write(client, paused, none, 1, "live", http.StatusOK)
					v.want("j", "1|live|10|f6, 2|b|20|f7")
					write(client, paused, none, 2, "stale", http.StatusConflict)
					v.want("j", "1|live|10|f6, 2|b|20|f7")

					next := v.under(8)
					write(client, next, none, 1, "next", http.StatusOK)
					v.want("j", "1|next|10|f8, 2|b|20|f7")
					write(client, paused, none, 1, "late", http.StatusConflict)
					v.want("j", "1|next|10|f8, 2|b|20|f7")
					write(client, next, none, 1, "again", http.StatusOK)
					v.want("j", "1|again|10|f8, 2|b|20|f7")

					// No lease, not even one that is made up beside the transport, or half a one.
					fields := http.Header{httplease.KeyHeader: {"k"}, httplease.FenceHeader: {"99"}}
					write(client, context.Background(), none, 1, "none", http.StatusPreconditionRequired)
					write(client, context.Background(), fields, 1, "byhand", http.StatusPreconditionRequired)
					write(client, lease.New("s", lease.Fence{}).Context(next), fields, 1, "semaphore", http.StatusPreconditionRequired)
					fields.Set(httplease.FenceHeader, "99.0")
					write(http.DefaultClient, next, fields, 1, "malformed", http.StatusBadRequest)
					fields.Del(httplease.FenceHeader)
					write(http.DefaultClient, next, fields, 1, "half", http.StatusBadRequest)
					v.want("j", "1|again|10|f8, 2|b|20|f7")

					// A lease that is lost sends nothing.
					l, _ := lease.FromContext(next)
					l.Lose(nil)
					for _, ctx := range []context.Context{next, context.WithoutCancel(next)} {
						req, err := http.NewRequestWithContext(ctx, "POST", service.URL+"?id=1&v=lost", nil)
						if err != nil {
							t.Fatal(err)
						}
						_, err = client.Do(req)
						v.is(err, lease.ErrLost)
					}
					v.want("j", "1|again|10|f8, 2|b|20|f7")
				})
			}
		})
	}
}

// TestIdempotencyKeyInARow: as the comment of IdempotencyKey says, whoever holds the lease calls with one key, if it is
// stored before the call. A provider that does the work of equal keys once counts what it did.
func TestIdempotencyKeyInARow(t *testing.T) {
	for _, e := range only(sqliteEngines) {
		t.Run(e.name, func(t *testing.T) {
			v := e.open(t)
			holder := func(fence uint64) context.Context {
				return lease.New("invoice/3", lease.Fence{Count: fence}).Context(context.Background())
			}
			store := func(ctx context.Context) (key string, err error) {
				l, _ := lease.FromContext(ctx)
				v.do("UPDATE witness SET fence = '" + l.Fence().Text() + "'")
				if _, err := v.exec(ctx, "UPDATE j SET v = ? WHERE id = ? AND v IS NULL", l.IdempotencyKey("pay"), 3); err != nil {
					return "", err
				}
				err = v.db.QueryRowContext(ctx, v.mark("SELECT v FROM j WHERE id = ?"), 3).Scan(&key)
				return key, err
			}
			invoice := func(t *testing.T) *env {
				v := v.with(t)
				v.ok(v.under(5), 1, "INSERT INTO j (id, v) VALUES (3, NULL)")
				return v
			}

			t.Run("older first", func(t *testing.T) {
				v := invoice(t)
				older, err := store(holder(6))
				v.is(err, nil)
				newer, err := store(holder(8))
				v.is(err, nil)
				again, err := store(holder(6)) // the older, awake again
				v.is(err, nil)
				if older == "" || newer != older || again != older {
					t.Errorf("the keys are %s, %s and %s", older, newer, again)
				}
				v.want("j", jStart+", 3|"+older+"|0|f6")
			})
			t.Run("newer first", func(t *testing.T) {
				v := invoice(t)
				newer, err := store(holder(8))
				v.is(err, nil)
				_, err = store(holder(6))
				v.fenced(err, "j", 6, 8)
				v.want("j", jStart+", 3|"+newer+"|0|f8")
			})
		})
	}
}

// TestIdempotencyKeyOverHTTP: a service that calls the provider for its caller makes the caller's key.
func TestIdempotencyKeyOverHTTP(t *testing.T) {
	service := httptest.NewServer(httplease.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l, ok := lease.FromContext(r.Context())
		if !ok {
			http.Error(w, "no lease", http.StatusPreconditionRequired)
			return
		}
		io.WriteString(w, l.IdempotencyKey("pay"))
	})))
	defer service.Close()
	l := lease.New(" żółw, 100%\r\n", lease.Fence{Epoch: 1, Count: 7})
	req, err := http.NewRequestWithContext(l.Context(t.Context()), "POST", service.URL, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: &httplease.Transport{}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); err != nil || string(got) != l.IdempotencyKey("pay") {
		t.Errorf("the service made %s, %v; the caller %s", got, err, l.IdempotencyKey("pay"))
	}
}
