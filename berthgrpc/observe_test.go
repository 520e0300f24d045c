package berthgrpc_test

import (
	"testing"
	"time"

	testpb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/berth-go/berth/berthgrpc"
)

// TestObservedCallsPass at once, also without Redis, and no loss ends them.
func TestObservedCallsPass(t *testing.T) {
	for side, limited := range sides {
		t.Run(side, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.start(&service{}, limited(w, berthgrpc.Observe(), berthgrpc.MaxHold(time.Minute)))
				began := time.Now()
				stream, err := w.calls.FullDuplexCall(w.Context()) // it has the permit
				if err != nil {
					t.Fatal(err)
				}
				for range 3 {
					if err := w.call(w.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if time.Since(began) != 0 || w.log.Count("would_wait=1") != 1 {
					t.Errorf("they waited for %v", time.Since(began))
				}
				w.store.Down()
				<-time.After(time.Hour)
				if err := w.call(w.Context()); err != nil {
					t.Error(err)
				}
				if err := stream.Send(&testpb.StreamingOutputCallRequest{}); err != nil {
					t.Error(err)
				}
				if _, err := stream.Recv(); err != nil {
					t.Errorf("the stream that lost its permit ended: %v", err)
				}
				_ = stream.CloseSend()
				if _, err := stream.Recv(); ended(err) != nil {
					t.Error(err)
				}
			})
		})
	}
}
