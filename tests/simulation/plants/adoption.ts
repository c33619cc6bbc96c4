/** Mistakes of what adopts objects after a restore, and of what reports what a bucket has lost. */
import { toBinary } from "@bufbuild/protobuf";
import type { AdopterNeeds, ObjectAdopter } from "#functions/ingest/adopt-objects.ts";
import { ObjectMissing } from "#functions/objects/object-store.ts";
import { readFooter } from "#functions/store/ingest/object-footer.ts";
import {
  type ObjectFooter,
  ObjectFooterSchema,
  type ObjectQueue,
} from "#proto/gen/svc/ingest/v1/stored_object_pb.js";
import type { Plant } from "../plant.ts";

/** Replaces members of the adopter. */
const adopter = (change: Partial<ObjectAdopter>): Plant => ({
  adoption: (create) => (needs) => ({ ...create(needs), ...change }),
});

/** Replaces what it uses. */
const adopting = (change: (needs: AdopterNeeds) => Partial<AdopterNeeds>): Plant => ({
  adoption: (create) => (needs) => create({ ...needs, ...change(needs) }),
});

type Store = Awaited<ReturnType<AdopterNeeds["objects"]["storeOf"]>>;

/** Replaces members of its stores. */
const store = (change: (store: Store) => Partial<Store>): Plant =>
  adopting(({ objects }) => ({
    objects: {
      storeOf: async (id) => {
        const opened = await objects.storeOf(id);
        return { ...opened, ...change(opened) };
      },
    },
  }));

/** Changes the queues of the footers that it reads. */
const queues = (change: (queues: ObjectQueue[]) => ObjectQueue[]): Plant =>
  store((own) => ({
    read: async (name, part) => {
      if (!("last" in part)) return own.read(name, part);
      const footer = await readFooter(own, name);
      return encodeFooter({ ...footer, queues: change(footer.queues) });
    },
  }));

const encodeFooter = (footer: ObjectFooter) => {
  const bytes = toBinary(ObjectFooterSchema, footer);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([bytes, length, Buffer.from("SVCOBJ1\n")]);
};

/** The mistakes of adoption by name. */
export const adoptionPlants: Readonly<Record<string, Plant>> = {
  "a loss is recorded before objects are searched": adopter({ recover: async () => false }),
  "adoption leaves out a queue": queues((all) => all.slice(1)),
  "adoption leaves out a queue's last block": queues((all) =>
    all.map((queue) => ({ ...queue, blocks: queue.blocks.slice(0, -1) })),
  ),
  "adoption takes objects in any order": queues((all) =>
    all.map((queue) => ({ ...queue, previousCursor: 0n })),
  ),
  "adoption does not see the newest object": store(({ list }) => ({
    list: async (...query) => (await list(...query)).slice(0, -1),
  })),
  "what no host claims is never adopted": { server: { forgetsDays: true } },
  "damage is not named": { source: { hidesDamage: true } },
  "old names are garbage whatever they have": store(({ read }) => ({
    read: (name, part, ...more) =>
      "last" in part ? Promise.reject(new ObjectMissing(name)) : read(name, part, ...more),
  })),
};
