import { counting, type Plant } from "../plant.ts";

export default {
  sink: counting((counted) => ({ ...counted, sessionId: null })),
  accounts: ({ accept }) => ({
    accept: (caller, account, stream) =>
      accept(caller, account, stream && { ...stream, cursor: 0n, sessionId: undefined }),
  }),
} satisfies Plant;
