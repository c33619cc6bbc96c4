export { neverAnswered as default } from "../plant.ts";
