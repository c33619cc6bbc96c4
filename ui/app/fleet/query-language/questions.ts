/** Queries that answer what operators ask every day, complete as they are. The list of an empty bar begins with them. */
export const questions: readonly { word: string; meaning: string }[] = [
  { word: "forwarding:stopped", meaning: "which hosts stopped forwarding" },
  {
    word: "drift:drifted,on_last_known_good",
    meaning: "which run another config than the desired one",
  },
  { word: "expires:weekend", meaning: "which certificates expire this weekend" },
  { word: "condition:queue_at_risk", meaning: "who is losing data, or is about to" },
  { word: "auth:failing", meaning: "who keeps failing authentication" },
  { word: "changed<1h", meaning: "which hosts changed in the last hour" },
];
