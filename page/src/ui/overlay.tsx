// Menus, dialogs and short messages.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

export function Menu({ label, children, left, title }: {
  label: ComponentChildren; children: (close: () => void) => ComponentChildren; left?: boolean; title?: string;
}) {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const close = (): void => {
    setOpen(false);
    button.current?.focus();
  };
  useEffect(() => {
    if (!open) return undefined;
    const outside = (event: PointerEvent): void => {
      if (!box.current?.contains(event.target as Node)) setOpen(false);
    };
    const escape = (event: KeyboardEvent): void => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      close(); // On the document: what had the focus may have disappeared from the menu.
    };
    document.addEventListener("pointerdown", outside);
    document.addEventListener("keydown", escape);
    box.current?.querySelector<HTMLElement>(".sheet-menu input, .sheet-menu button")?.focus();
    return () => {
      document.removeEventListener("pointerdown", outside);
      document.removeEventListener("keydown", escape);
    };
  }, [open]);
  const move = (event: KeyboardEvent): void => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const items = [...(box.current?.querySelectorAll<HTMLElement>(".sheet-menu > button:not(:disabled)") ?? [])];
    const at = items.indexOf(document.activeElement as HTMLElement);
    if (at < 0) return;
    event.preventDefault();
    items[(at + (event.key === "ArrowDown" ? 1 : items.length - 1)) % items.length]?.focus();
  };
  return (
    <div class="menu" ref={box} onKeyDown={move}>
      <button ref={button} aria-expanded={open} aria-haspopup="true" title={title} onClick={() => setOpen(!open)}>
        {label} <span aria-hidden="true">▾</span>
      </button>
      {open && <div class={left ? "sheet-menu left" : "sheet-menu"}>{children(close)}</div>}
    </div>
  );
}

export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    element.current?.showModal();
    return () => before?.focus();
  }, []);
  return (
    <dialog ref={element} aria-label={title} onClose={onClose} onCancel={onClose} onKeyDown={(event) => event.stopPropagation()}>
      <div class="inside"><h2>{title}</h2>{children}</div>
    </dialog>
  );
}

interface Toast {
  id: number;
  text: string;
  kind: string;
}

let toasts: Toast[] = [];
let show: (list: Toast[]) => void = () => undefined;
let count = 0;

/** Shows a short message: that something the user requested has happened, or why not. */
export function say(text: string, kind = ""): void {
  const toast = { id: ++count, text, kind };
  toasts = [...toasts.slice(-3), toast];
  show(toasts);
  setTimeout(() => {
    toasts = toasts.filter((one) => one !== toast);
    show(toasts);
  }, kind === "bad" ? 12000 : 5000);
}

export function Toasts() {
  const [list, setList] = useState(toasts);
  useEffect(() => {
    show = setList;
    return () => void (show = () => undefined);
  }, []);
  return (
    <div class="toasts" aria-live="polite" role="status">
      {list.map((toast) => <div key={toast.id} class={`notice ${toast.kind}`}><span class="wrap">{toast.text}</span></div>)}
    </div>
  );
}
