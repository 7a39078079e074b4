package httplease

import (
	"context"
	"net/http"

	"github.com/fencedsql/fencedsql/lease"
)

// Handler returns a handler that reads the lease of each request and calls next with a context that carries it: the
// service's fenced writes with r.Context() then return fencedsql.ErrFenced if the caller is stale. 409 (Conflict) is a
// fitting answer to that.
//
// The lease has the caller's key and fence and nothing else. It cannot be renewed here, and nobody tells it when the
// caller's is lost: the fence is what keeps a stale caller out. Its context ends with the request's, which net/http ends
// when the caller gives up or loses its lease, and when next has returned.
//
// A request without the two fields has no lease, and neither does its context, even if the context that came in carries
// one, such as a lease that the server holds: who leaves the fields out must not write under that. With the fields, theirs
// is the lease that [lease.FromContext] finds. A request with one field only, with a field that is repeated or malformed, or with the fence 0
// gets 400 and the reason as plain text, which quotes nothing of the request; next is not called.
//
// Handler believes what it reads: see the package's comment on trust.
func Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l, err := read(r.Header)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		ctx := r.Context()
		if l == nil {
			if _, other := lease.FromContext(ctx); other {
				r = r.WithContext(lease.Without(ctx))
			}
			next.ServeHTTP(w, r)
			return
		}
		// The lease is never lost, so what its context keeps in its parent would stay there as long as the parent lives.
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(l.Context(ctx)))
	})
}
