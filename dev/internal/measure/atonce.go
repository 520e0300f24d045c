package measure

import "sync"

// AtOnce calls f for 0 to n-1, many at once, until all are done or some have failed. Of the
// errors, which are mostly the same, it returns one.
func AtOnce(n int, f func(i int) error) error {
	const workers = 512
	errs := make([]error, min(n, workers))
	var all sync.WaitGroup
	for w := range errs {
		all.Go(func() {
			for i := w; i < n && errs[w] == nil; i += workers {
				errs[w] = f(i)
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
