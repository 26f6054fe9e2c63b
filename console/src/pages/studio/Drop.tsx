import { CameraOutlined, DeleteOutlined, InboxOutlined } from "@ant-design/icons";
import { Button } from "antd";
import { useEffect, useRef, useState } from "react";
import { useT } from "@/i18n";
import { PictureFault, takePicture, type Picture } from "./picture";
import { SAMPLES } from "./tools";

const hasTouch = window.matchMedia("(pointer: coarse)").matches;

/** A place for pictures: drop, paste, choose, photograph, or take a sample. */
export function Drop({ label, pictures, most, onChange, hasSamples = false, takesPaste = false }: { label: string; pictures: Picture[]; most: number; onChange: (change: (pictures: Picture[]) => Picture[]) => void; hasSamples?: boolean; takesPaste?: boolean }) {
  const t = useT();
  const file = useRef<HTMLInputElement>(null);
  const camera = useRef<HTMLInputElement>(null);
  const [isOver, setOver] = useState(false);
  const [faults, setFaults] = useState<PictureFault[]>([]);
  const [waiting, setWaiting] = useState(0);

  const add = async (files: { blob: Blob; name: string }[]) => {
    const room = most === 1 ? 1 : most - pictures.length;
    const chosen = files.slice(0, room);
    const found: PictureFault[] = files.length > room && most > 1 ? [new PictureFault("picturesTooMany", { most })] : [];
    setFaults([]);
    setWaiting((count) => count + chosen.length);
    for (const { blob, name } of chosen) {
      try {
        const picture = await takePicture(blob, name);
        onChange((before) => (most === 1 ? [picture] : [...before, picture]));
      } catch (error) {
        found.push(error instanceof PictureFault ? error : new PictureFault("pictureUnreadable", { name }));
      }
      setWaiting((count) => count - 1);
    }
    setFaults(found);
  };
  const addFiles = (list: Iterable<File>) => void add([...list].map((one) => ({ blob: one, name: one.name })));
  const latest = useRef(addFiles);
  useEffect(() => {
    latest.current = addFiles;
  });

  useEffect(() => {
    if (!takesPaste) return;
    const paste = (event: ClipboardEvent) => {
      const found = [...(event.clipboardData?.files ?? [])].filter((one) => one.type.startsWith("image/"));
      if (found.length) latest.current(found);
    };
    window.addEventListener("paste", paste);
    return () => window.removeEventListener("paste", paste);
  }, [takesPaste]);

  const addSample = async (name: string, address: string) => {
    const answer = await fetch(address);
    await add([{ blob: await answer.blob(), name: `${name}.jpg` }]);
  };

  const isFull = pictures.length >= most && most > 1;
  return (
    <div className="stack tight">
      {pictures.length > 0 ? (
        <ul className={`previews ${most === 1 ? "single" : ""}`} aria-label={label}>
          {pictures.map((picture) => (
            <li key={picture.id}>
              <img src={picture.url} alt={picture.name} />
              <span className="preview-name">
                <span>{picture.name}</span>
                <span className="digits">
                  {picture.width}×{picture.height}
                </span>
              </span>
              <Button className="preview-remove" size="small" icon={<DeleteOutlined />} aria-label={t("pictureRemove", { name: picture.name })} onClick={() => onChange((before) => before.filter((one) => one.id !== picture.id))} />
            </li>
          ))}
        </ul>
      ) : null}
      {isFull ? null : (
        // Dropping is an addition for the mouse; the button inside does the same for everybody.
        <div
          className={`drop ${isOver ? "over" : ""} ${pictures.length ? "small" : ""}`}
          role="group"
          aria-label={label}
          onDragOver={(event) => {
            event.preventDefault();
            setOver(true);
          }}
          onDragLeave={() => setOver(false)}
          onDrop={(event) => {
            event.preventDefault();
            setOver(false);
            addFiles(event.dataTransfer.files);
          }}
        >
          {pictures.length ? null : <InboxOutlined className="drop-icon" aria-hidden="true" />}
          <div className="row" style={{ justifyContent: "center" }}>
            <Button type={pictures.length ? "default" : "primary"} loading={waiting > 0} onClick={() => file.current?.click()}>
              {pictures.length ? t(most === 1 ? "pictureOther" : "picturesMore") : t(most === 1 ? "pictureChoose" : "picturesChoose")}
            </Button>
            {hasTouch ? (
              <Button icon={<CameraOutlined />} onClick={() => camera.current?.click()}>
                {t("pictureCamera")}
              </Button>
            ) : null}
          </div>
          {pictures.length ? null : <span className="soft">{t(most === 1 ? "pictureDrop" : "picturesDrop", { most })}</span>}
          <input ref={file} type="file" hidden aria-label={label} accept="image/*" multiple={most > 1} data-testid="file" onChange={(event) => (addFiles(event.target.files ?? []), (event.target.value = ""))} />
          <input ref={camera} type="file" hidden aria-label={t("pictureCamera")} accept="image/*" capture="environment" onChange={(event) => (addFiles(event.target.files ?? []), (event.target.value = ""))} />
        </div>
      )}
      {faults.length ? (
        <div role="alert" className="field-fault">
          {faults.map((fault, at) => (
            <div key={at}>{t(fault.word, fault.values)}</div>
          ))}
        </div>
      ) : null}
      {hasSamples && !isFull && (pictures.length === 0 || most > 1) ? (
        <div className="row samples">
          <span className="soft">{t("sampleTry")}</span>
          {SAMPLES.map((sample) => (
            <button type="button" key={sample.name} className="sample" aria-label={t("sampleUse", { name: t(`sample_${sample.name.replace("-", "_") as "bottle"}`) })} onClick={() => void addSample(sample.name, sample.file)}>
              <img src={sample.file} alt="" width="52" height="52" loading="lazy" />
            </button>
          ))}
        </div>
      ) : null}
    </div>
  );
}
