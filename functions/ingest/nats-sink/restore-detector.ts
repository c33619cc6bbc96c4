import type { JetStreamManager, StreamInfo } from "@nats-io/jetstream";
import { type AckedMessage, isAcked } from "./acked-messages.ts";

/**
 * Makes what finds out that a stream has gone back: it was missing, was created again, ends before where it ended, or has another message where it
 * acknowledged an envelope. A host that sends finds it by itself; of one that is silent nobody would report the loss.
 */
export const createRestoreDetector = (
  { streams }: Pick<JetStreamManager, "streams">,
  envelopes: string,
) => {
  let seen = new Map<string, { created: string; last: number }>();
  let newest: AckedMessage | undefined;
  let wasMissing = false;
  const isNewestGone = async (message: AckedMessage): Promise<boolean> => {
    const found = await streams.getMessage(envelopes, { seq: message.seq });
    // Retention may have deleted it.
    if (found === null) return (await streams.info(envelopes)).state.last_seq < message.seq;
    return !isAcked(found, message);
  };
  return {
    noteMissing: () => {
      wasMissing = true;
    },
    noteStored: (stored: AckedMessage): void => {
      if (stored.seq > (newest?.seq ?? 0)) newest = stored;
    },
    isFound: async (infos: readonly StreamInfo[]): Promise<boolean> => {
      const hasGoneBack = infos.some(({ config, created, state }) => {
        const before = seen.get(config.name);
        return before !== undefined && (created !== before.created || state.last_seq < before.last);
      });
      seen = new Map(
        infos.map(({ config, created, state }) => [config.name, { created, last: state.last_seq }]),
      );
      const isFound =
        hasGoneBack || wasMissing || (newest !== undefined && (await isNewestGone(newest)));
      wasMissing = false;
      if (isFound) newest = undefined;
      return isFound;
    },
  };
};
