package lease_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencedsql/fencedsql/lease"
)

// A lease whose fence comes from some lock service, and the context for the statements under it.
func Example() {
	l := lease.New("chat/42", lease.Fence{Epoch: 1, Count: 7})
	defer l.Lose(nil)

	ctx := l.Context(context.Background())
	// db.ExecContext(ctx, "UPDATE chats SET summary = ? WHERE id = ?", summary, 42)

	found, ok := lease.FromContext(ctx)
	fmt.Println(found.Key(), found.Fence(), ok)

	l.Lose(errors.New("not renewed in time"))
	fmt.Println(context.Cause(ctx))
	fmt.Println(errors.Is(context.Cause(ctx), lease.ErrLost))
	// Output:
	// chat/42 18446744073709551623 true
	// lease: lost (key "chat/42"): not renewed in time
	// true
}

// Text and the verb %040s write the fence as a text column must hold it.
func ExampleFence_Text() {
	f, err := lease.ParseFence("18446744073709551615")
	if err != nil {
		fmt.Println(err)
		return
	}
	next, _ := f.Next()
	fmt.Println(f.Text())
	fmt.Printf("%040s\n", next)
	fmt.Println(f.Text() < next.Text())
	// Output:
	// 0000000000000000000018446744073709551615
	// 0000000000000000000018446744073709551616
	// true
}

// The same call again has the same key; the next holder's has another.
func ExampleLease_IdempotencyKey() {
	l := lease.New("invoice/17", lease.Fence{Epoch: 1, Count: 7})
	next := lease.New("invoice/17", lease.Fence{Epoch: 1, Count: 8})

	// req.Header.Set("Idempotency-Key", l.IdempotencyKey("pay"))
	fmt.Println(l.IdempotencyKey("pay"))
	fmt.Println(l.IdempotencyKey("pay"))
	fmt.Println(l.IdempotencyKey("send receipt"))
	fmt.Println(next.IdempotencyKey("pay"))
	// Output:
	// 389fc02b-40a8-8a78-b1d8-35fffeaf8e3b
	// 389fc02b-40a8-8a78-b1d8-35fffeaf8e3b
	// f999467b-63ad-8633-b780-1bb8780f9d78
	// 888a1049-7f6d-8fbd-b506-60e3f06eb678
}
