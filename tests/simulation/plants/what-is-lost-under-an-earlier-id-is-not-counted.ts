import type { Plant } from "../plant.ts";

export default {
  accounts: ({ accept }) => ({
    accept: (caller, account, stream) => accept(caller, account, stream && { ...stream, left: [] }),
  }),
} satisfies Plant;
