import type { GrpcRequest } from "./grpc-stream.ts";

/** Requests of a stream that go between the others. */
export interface ControlRequests {
  push(request: GrpcRequest): void;
  /** Returns the requests of the stream: `others`, and between them those that were pushed. */
  merge(others: AsyncGenerator<GrpcRequest>): AsyncGenerator<GrpcRequest>;
}

/** Creates an empty one. */
export const createControlRequests = (): ControlRequests => {
  const unsent: GrpcRequest[] = [];
  let wake = () => {};
  return {
    push(request) {
      unsent.push(request);
      wake();
    },
    async *merge(others) {
      let next: IteratorResult<GrpcRequest> | undefined;
      let failure: { error: unknown } | undefined;
      const pull = () => {
        next = undefined;
        others.next().then(
          (result) => {
            next = result;
            wake();
          },
          (error: unknown) => {
            failure = { error };
            wake();
          },
        );
      };
      pull();
      for (;;) {
        if (failure) throw failure.error;
        const request = unsent.shift();
        if (request) yield request;
        else if (next) {
          if (next.done) return;
          yield next.value;
          // Only now: the one that was sent is freed with the request for the next one.
          pull();
        } else await new Promise<void>((resolve) => (wake = resolve));
      }
    },
  };
};
