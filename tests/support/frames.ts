/** The identity of a test's default client certificate. */
export const testHost = "spiffe://fleet.test/host-1";

/** Returns a new queue id. */
export const newQueue = (): Buffer => Buffer.from(crypto.getRandomValues(new Uint8Array(16)));

/** A frame of the log lines `from`..`to`, in the shape of @grpc/proto-loader. */
export const frame = (queue_id: Buffer, from: number, to: number, host_id = testHost) => ({
  host_id,
  queue_id,
  previous_sequence: from - 1,
  envelopes: Array.from({ length: to - from + 1 }, (_, index) => ({
    sequence: from + index,
    kind: "log_line",
    source: "/var/log/app.log",
    attributes: { "file.path": "/var/log/app.log" },
    payload: Buffer.from(`line ${from + index}`),
  })),
});

/** The first message of a stream. */
export const open = (queue_id: Buffer, host_id = testHost) => ({ open: { host_id, queue_id } });

/** The first message of a stream that names its session, and the rest of what an Open states. */
export const openSession = (
  queue_id: Buffer,
  session: {
    session_id: Buffer;
    previous_session_ids?: Buffer[];
    acked_through?: number;
    sent_through?: number;
    left_queues?: { queue_id: Buffer; stored_through: number }[];
  },
) => ({ open: { host_id: testHost, queue_id, ...session } });
