import { useLocation } from "@solidjs/router";
import { onCleanup, onMount } from "solid-js";
import * as v from "valibot";
import { keepText, readKeptText } from "./kept-text.ts";

const Typed = v.pipe(
  v.string(),
  v.parseJson(),
  v.record(v.string(), v.union([v.string(), v.boolean()])),
);

const keyOf = ({ type, name, value }: HTMLInputElement) =>
  type === "checkbox" ? `${name}=${value}` : name;

/**
 * Keeps what a person types into a form until the form is left within the page, and restores it after a reload of the same address, also in
 * fields that appear later. Never keeps a password.
 */
export const keepTyped = (form: HTMLFormElement, name: string): void => {
  const { pathname, search } = useLocation();
  const address = pathname + search;
  const kept = v.safeParse(Typed, readKeptText(name, address));
  const typed = kept.success ? kept.output : {};
  const waiting = new Set(Object.keys(typed));
  const restore = () => {
    for (const field of form.querySelectorAll("input")) {
      const key = keyOf(field);
      if (!waiting.delete(key)) continue;
      const value = typed[key];
      if (typeof value === "boolean") field.checked = value;
      else field.value = value ?? "";
      field.dispatchEvent(new InputEvent("input", { bubbles: true }));
    }
  };
  form.addEventListener("input", ({ target }) => {
    if (!(target instanceof HTMLInputElement) || target.type === "password") return;
    typed[keyOf(target)] = target.type === "checkbox" ? target.checked : target.value;
    keepText(name, address, JSON.stringify(typed));
  });
  const observer = new MutationObserver(restore);
  observer.observe(form, { childList: true, subtree: true });
  onMount(restore);
  onCleanup(() => {
    observer.disconnect();
    keepText(name, address, "");
  });
};
