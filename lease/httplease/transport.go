// Package httplease takes a lease's fence to another service over HTTP, so that the service's own fenced tables refuse a
// stale caller.
//
// The caller's [Transport] sends the lease of the request's context in two header fields. The service's [Handler] puts
// it into the context of the request it got; what the service writes with that context is fenced like the caller's own
// writes. It may call further services in the same way.
//
//	Lease-Key: chat/42
//	Lease-Fence: 18446744073709551623
//
// Lease-Fence is [lease.Fence.String], as [lease.ParseFence] reads it: decimal, from 1 to 2^128−1. Lease-Key is the key,
// any UTF-8 of up to 512 bytes, percent-encoded (RFC 3986, section 2.1): each byte that is not visible ASCII, and "%" and
// ",", becomes "%" and two hexadecimal digits. Spaces at the ends, line breaks and letters of any script so arrive as they
// were, and a field cannot be mistaken for two fields that were joined with a comma (RFC 9110, section 5.3).
//
// # Trust
//
// The fields are a claim by the caller and prove nothing. Whoever can send them can write as the holder of any lease, and
// with a made-up fence near 2^128 shuts every true holder out of the rows it writes, until somebody resets them by hand.
// Only callers that are trusted to write those rows should be able to send them: at the edge, delete both fields
// ([KeyHeader], [FenceHeader]) from what comes from outside; inside, authenticate the caller before Handler reads them.
//
// All callers that write one table must take their leases from one source, since fences of two sources do not compare.
package httplease

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/fencedsql/fencedsql/lease"
)

// A Transport is an [http.RoundTripper] that sends the lease of each request's context. Give it to the clients of
// services that are to have the lease, not to one that calls everybody: the key may say what the program works on.
//
//	client := &http.Client{Transport: &httplease.Transport{}}
//	req, err := http.NewRequestWithContext(ctx, "POST", …) // ctx from l.Context or Hold
//	resp, err := client.Do(req)
//
// The context alone decides. Lease fields that the request has already are not sent on: a reverse proxy with this
// Transport passes on what its [Handler] has read, and nothing else. Nothing is sent for a context without a lease
// ([lease.Without]), or whose lease has no fence, such as a semaphore's; the service then has no lease, and its fenced
// writes return fencedsql.ErrNoLease.
//
// After a redirect to another scheme, host or port the lease is not sent any more in that chain, not even if it leads back.
//
// The zero Transport is ready for use, by many goroutines.
type Transport struct {
	// Base sends the requests; nil means [http.DefaultTransport].
	Base http.RoundTripper
}

// RoundTrip implements [http.RoundTripper]. It does not change req.
//
// The error of a request whose lease is lost wraps [lease.ErrLost]. If it was lost before, the error says "not sent";
// otherwise the service may have done its work, as with any request that is cancelled. A retry under the same lease
// fails the same way. A key that is not UTF-8 of at most 512 bytes is an error too, and nothing is sent.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	l, _ := lease.FromContext(req.Context())
	key, fence, err := fields(l)
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, fmt.Errorf("httplease: request not sent: %w", err)
	}

	header := without(req.Header)
	if fence != "" && !redirectedAway(req) {
		header.Set(KeyHeader, key)
		header.Set(FenceHeader, fence)
	}
	// A shallow copy: the caller may still set the values of req.Trailer, while the body is read.
	sent := req.WithContext(req.Context())
	sent.Header = header
	resp, err := t.base().RoundTrip(sent)
	if err != nil && l.Err() != nil && !errors.Is(err, lease.ErrLost) { // HTTP/2 says only that the context ended
		err = fmt.Errorf("httplease: %w: %w", l.Err(), err)
	}
	return resp, err
}

// CloseIdleConnections does what it does for Base, if Base has such a method; [http.Client.CloseIdleConnections] calls it.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

// without returns a copy of h without the lease fields, however they are spelled.
func without(h http.Header) http.Header {
	if h == nil {
		return make(http.Header)
	}
	h = h.Clone()
	maps.DeleteFunc(h, func(name string, _ []string) bool {
		return strings.EqualFold(name, KeyHeader) || strings.EqualFold(name, FenceHeader)
	})
	return h
}

// redirectedAway reports whether one of the redirects that led to req left the scheme, host or port of the request
// before it. net/http's client sets Response on the requests that follow a redirect, and nowhere else.
func redirectedAway(req *http.Request) bool {
	for req.Response != nil {
		from := req.Response.Request
		if from == nil || from.URL.Scheme != req.URL.Scheme || !strings.EqualFold(from.URL.Host, req.URL.Host) {
			return true
		}
		req = from
	}
	return false
}
