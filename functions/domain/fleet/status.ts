/** A status without a report: its digest says that the host's last signed report still holds, apart from these figures. */
export interface BriefStatus {
  digest: Uint8Array;
  figures: {
    queueRecords: number;
    queueBytes: number;
    oldestRecordAgeSeconds: number | null;
    droppedRecordsTotal: number;
    deadLetters: number;
    /** Null before the first ack. */
    lastAckAgeSeconds: number | null;
  };
}
