import type { Plant } from "./plant.ts";
import { adoptionPlants } from "./plants/adoption.ts";
import { corePlants } from "./plants/cores.ts";
import { hostPlants } from "./plants/hosts.ts";
import { hourPlants } from "./plants/hours.ts";
import { objectPlants } from "./plants/objects.ts";
import { storePlants } from "./plants/stores.ts";

/** The mistakes that the oracle has to find, by name. */
export const plants: Readonly<Record<string, Plant>> = {
  ...hostPlants,
  ...corePlants,
  ...hourPlants,
  ...objectPlants,
  ...adoptionPlants,
  ...storePlants,
};
