import type { QueueName } from "#functions/store/ingest/queues.ts";

/** The subjects that the stream of envelopes stores. */
export const envelopeSubjects = "svc.ingest.>";
/** The subjects that the stream of queues stores. */
export const queueSubjects = "svc.queue.>";

/** Encodes any text as one token of a subject, with RFC 3986's percent-encoding: `decodeURIComponent` decodes it. */
export const encodeToken = (text: string): string =>
  encodeURIComponent(text).replace(/[.*]/g, (character) => (character === "." ? "%2E" : "%2A"));

/** The subjects of one queue. */
export interface QueueSubjects {
  /** Where the envelopes of a kind are stored. */
  envelopes(kind: string): string;
  /** Where the queue's session, kinds and cursor are stored. */
  state: string;
}

/** Returns the subjects of a queue: `svc.ingest.<kind>.<host>.<queue>` and `svc.queue.<host>.<queue>`. */
export const subjectsOf = ({ hostId, queueId }: QueueName): QueueSubjects => {
  const name = `${encodeToken(hostId)}.${queueId.toHex()}`;
  return { envelopes: (kind) => `svc.ingest.${kind}.${name}`, state: `svc.queue.${name}` };
};

/** Returns the subjects of the states of a host's queues. */
export const stateSubjectsOf = (hostId: string): string => `svc.queue.${encodeToken(hostId)}.*`;
