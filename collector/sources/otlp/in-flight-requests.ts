/**
 * Limits the memory of the request bodies that all connections together are sending. Over the limit, drops the oldest requests until there is
 * room. So a sender that begins requests and does not end them loses its own first, without a timer for each.
 */
export interface InFlightRequests {
  /** Adds a request; calls `drop` at most once, and not after `end`. */
  begin(drop: () => void): InFlightRequest;
}

/** A request whose body is being received. */
export interface InFlightRequest {
  /** Adds received bytes. */
  add(bytes: number): void;
  /** Removes the request: its body is complete, or nothing of it is kept. */
  end(): void;
}

/** Creates the limit of one source. */
export const createInFlightRequests = (bytesMax: number): InFlightRequests => {
  /** In the order in which they began. */
  const open = new Set<{ bytes: number; drop(): void }>();
  let bytesInFlight = 0;
  return {
    begin: (drop) => {
      const own = { bytes: 0, drop };
      open.add(own);
      const end = (request: typeof own) => {
        if (open.delete(request)) bytesInFlight -= request.bytes;
      };
      return {
        add: (bytes) => {
          if (!open.has(own)) return;
          own.bytes += bytes;
          bytesInFlight += bytes;
          for (const oldest of open) {
            if (bytesInFlight <= bytesMax) break;
            end(oldest);
            oldest.drop();
          }
        },
        end: () => end(own),
      };
    },
  };
};
