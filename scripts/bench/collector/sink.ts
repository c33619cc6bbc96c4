import { startIngestPeer } from "../../lab/ingest-peer.ts";

/**
 * The far end of the bench as a process of its own: an ingest service that acknowledges at once and keeps nothing. Prints one line of
 * JSON with where it is and a client's pair, then answers each line on stdin with how many envelopes and bytes came by then.
 */
const sink = async (): Promise<void> => {
  const peer = await startIngestPeer();
  let envelopes = 0;
  let bytes = 0;
  const forget = () => {
    for (const { payload } of peer.stored.splice(0)) {
      envelopes += 1;
      bytes += payload.length;
    }
    peer.frames.splice(0);
  };
  setInterval(forget, 20);
  const { endpoint, tls, hostId } = peer;
  console.log(JSON.stringify({ endpoint, tls, hostId }));
  process.stdin.on("data", () => {
    forget();
    console.log(JSON.stringify({ envelopes, bytes }));
  });
  process.stdin.on("end", () => process.exit());
};

await sink();
