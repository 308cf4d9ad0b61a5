# Which GPU is which: UUID and PCI address, one GPU a block. The driver's own files answer at once even when a GPU hangs.
if [ -d /proc/driver/nvidia/gpus ]; then
    part gpus form=proc
    cat /proc/driver/nvidia/gpus/*/information
elif command -v nvidia-smi >/dev/null 2>&1; then
    part gpus form=nvidia-smi
    limit 5 nvidia-smi --query-gpu=index,uuid,pci.bus_id --format=csv,noheader
else
    part no-driver
fi
part end
